// Which bytes of which value are asked for next. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/transport/bulk_fetch.h"

namespace lockstep::transport {

// The fetches from one member. They take turns, a chunk each, as long as the window is not full;
// with a member whose memory can be read, a long value asks for its place first. Answers come in
// the order of asking.
//
// Threads: thread-compatible. Bounds: `window_bytes` on their way, `places_max`; the fetches, which
// the owner bounds.
class FetchSchedule {
 public:
  // How a value comes.
  enum class Way { kUndecided, kBytes, kPlace };
  struct Running {
    BulkFetch what;
    uint64_t asked = 0;
    uint64_t come = 0;
    Way way = Way::kUndecided;
    uint64_t address = 0;  // of its first byte, when it is read
  };
  using At = std::list<Running>::iterator;
  struct Chunk {
    std::optional<At> of;  // none: nobody wants it any more
    uint64_t lease = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool place = false;
  };

  explicit FetchSchedule(std::shared_ptr<const BulkFetchOptions> options)
      : options_(std::move(options)) {}

  void Add(const BulkFetch& fetch) { running_.push_back({.what = fetch}); }
  // Nothing: it is not running. Valid until it is forgotten or taken.
  std::optional<At> Find(rendezvous::OpId op);
  bool empty() const { return running_.empty(); }
  // What is on its way for it comes for nobody. It has left its place.
  void Forget(At running);
  // `Reset` has to follow: what was asked for points to what was taken.
  std::list<Running> TakeAll() { return std::exchange(running_, {}); }

  // What is to be asked for now, and counts as asked; nothing: the window is full, or there is
  // nothing left. `reads`: whether the member's memory can be read.
  std::optional<Chunk> Ask(bool reads);
  // Something was asked for and is not answered: there is a `front`.
  bool waits() const { return !asked_.empty(); }
  // The chunk that is answered next; one is waited for.
  const Chunk& front() const { return asked_.front(); }
  // It was answered, in full; one is waited for. Its bytes leave the window.
  Chunk TakeFront();

  // False: it had no place.
  bool LeavePlace(Running& running);
  // What was asked for and has not come is asked for again.
  void AskAgain(Running& running) { running.asked = running.come; }
  // What was asked for on the connection does not come.
  void Reset();

 private:
  std::optional<Chunk> NextChunk(At running, bool reads);

  const std::shared_ptr<const BulkFetchOptions> options_;
  std::list<Running> running_;
  At next_ = running_.begin();  // whose turn it is to ask
  std::deque<Chunk> asked_;
  uint64_t in_flight_ = 0;  // bytes, but for places
  size_t places_ = 0;       // asked for, or known
};

}  // namespace lockstep::transport
