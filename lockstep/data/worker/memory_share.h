// Lends chunks to consumers of this host where they lie, in memory that those can read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/data/worker/stored_chunk.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/unix_socket.h"
#include "lockstep/wire/native/data_messages.h"

namespace lockstep::data {

// A consumer asks over its link where it gets the memory (`ShareMemory`), connects to the unix
// socket that it is told, and says there what it was told. From then on it is sent the descriptor
// of each segment of the arena, before the first answer that names a place in it. When that socket
// closes, as the kernel does when a process dies, all that was lent to it comes back.
//
// The kernel says who connects: other users of the host than the worker's own and root are closed
// to before they count, and get bytes.
//
// Threads: loop-confined. Ownership: loop and arena must outlive it. Bounds: `shares_max`
// consumers, and of each `leases_max`; one more gets bytes instead. `strangers_max` connections
// that have not said yet whose they are.
class MemoryShare {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryShare>> Start(runtime::Loop& loop,
                                                            transport::Arena& arena);
  ~MemoryShare();
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;

  // For the worker's card.
  const std::string& unix_address() const { return unix_address_; }

  // `memory` is 0 when there is room for no more.
  wire::native::ShareMemoryReply Open();
  // Nothing: this one must get bytes.
  std::optional<wire::native::ChunkPlace> Lend(uint64_t memory, const StoredChunkPtr& chunk);
  void Release(uint64_t memory, std::span<const uint64_t> leases);

  size_t leases() const;

 private:
  // One consumer.
  struct Share {
    std::string token;
    std::shared_ptr<transport::UnixSocket> socket;  // null: it has not come yet
    std::set<uint32_t> told;                        // segments
    std::map<uint64_t, StoredChunkPtr> leases;
  };

  MemoryShare(runtime::Loop& loop, transport::Arena& arena) : loop_(loop), arena_(arena) {}
  void Accepted(const std::shared_ptr<transport::UnixSocket>& socket);
  void Readable(const std::shared_ptr<transport::UnixSocket>& socket);
  bool Tell(Share& share, uint32_t segment);
  void TellRemoved(Share& share);

  runtime::Loop& loop_;
  transport::Arena& arena_;
  std::string unix_address_;
  std::shared_ptr<transport::UnixListener> listener_;
  std::map<uint64_t, Share> shares_;
  std::set<std::shared_ptr<transport::UnixSocket>> strangers_;  // that have said nothing yet
  uint64_t last_lease_ = 0;
  uint64_t removed_seen_ = 0;
};

}  // namespace lockstep::data
