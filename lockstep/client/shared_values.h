// Values in memory that other processes of this host see.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::client {

// The arena of a rendezvous, and which values go there: those that are too long to travel with
// their offer, when memory is shared at all. Threads: thread-safe, but for `Keep`. Bounds: the
// arena's.
class SharedValues {
 public:
  struct Options {
    uint64_t arena_bytes_max = 0;
    uint64_t inline_bytes_max = 0;  // as the machine's
    bool shares_memory = true;
  };

  explicit SharedValues(const Options& options)
      : options_(options), arena_({.bytes_max = options.arena_bytes_max}) {}

  transport::Arena& arena() { return arena_; }

  // INVALID_ARGUMENT, `invalid_argument`: it has not the bytes that its type and shape say. Its
  // receiver would take us for broken.
  static absl::Status Check(const rendezvous::Value& value);
  // RESOURCE_EXHAUSTED, `quota_exceeded`: the arena is full.
  absl::StatusOr<std::shared_ptr<transport::Block>> Allocate(uint64_t bytes);
  // Whether a receiver that sees our memory would not see this value yet.
  bool NeedsCopy(const rendezvous::Value& value) const;
  // Into the arena. As `Allocate`.
  absl::Status Copy(rendezvous::Value& value);
  // Takes the value, if it lies in the arena: its memory is not used again, since others may look
  // at it for as long as this is there. With the owner's mutex.
  void Keep(rendezvous::Value& value);

 private:
  bool InArena(const rendezvous::Value& value) const;

  const Options options_;
  transport::Arena arena_;
  std::vector<rendezvous::Value> kept_;
};

}  // namespace lockstep::client
