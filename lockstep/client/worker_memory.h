// The memory of one data worker of this host, as a reader sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/rendezvous/transport/peer_arena.h"
#include "lockstep/rendezvous/transport/unix_socket.h"
#include "lockstep/wire/native/data_chunk.h"
#include "lockstep/wire/native/data_messages.h"

namespace lockstep::client {

// What is asked for and told here is in docs/formats/data.md. Whenever something does not work, the
// reader gets bytes instead.
//
// Threads: loop-confined; what was given out may go on any thread, also after this.
class WorkerMemory {
 public:
  // `host_card`: the worker's, as the dispatcher told it; empty: it shares none.
  WorkerMemory(asio::io_context& io, const std::string& host_card);
  ~WorkerMemory();
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  // True once: `ShareMemory` is to be sent, and its answer brought here.
  bool TakeWish();
  // The answer to `ShareMemory`. Where it does not work out, `memory` stays 0.
  void Opened(const absl::StatusOr<std::string>& answer);

  // For `ReadSegment`; 0: bytes please.
  uint64_t memory() const { return memory_; }
  // Leases of what has gone since the last time.
  std::vector<uint64_t> TakeReleased();

  // The chunk that lies there; the lease goes back when the last reference has gone. After an error
  // `memory` is 0.
  absl::StatusOr<rendezvous::MemoryPtr> View(const wire::native::ChunkPlace& place);

 private:
  // Outlives us in the hands of what was given out: the worker takes back what it lent when the
  // socket closes, and that must not be before.
  struct Lent {
    ~Lent();
    Mutex mutex;
    std::vector<uint64_t> released ABSL_GUARDED_BY(mutex);
    int fd ABSL_GUARDED_BY(mutex) = -1;  // of the socket, once we need it no more
    uint64_t generation ABSL_GUARDED_BY(mutex) = 0;
  };

  absl::Status TakeNotices();
  void GiveUp();

  asio::io_context& io_;
  bool wish_ = false;
  uint64_t memory_ = 0;
  std::shared_ptr<transport::UnixSocket> socket_;
  transport::PeerArena arena_;
  std::shared_ptr<Lent> lent_ = std::make_shared<Lent>();
};

}  // namespace lockstep::client
