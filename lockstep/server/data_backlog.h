// Large requests to the data service that wait until the disk has caught up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/server/commit_queue.h"

namespace lockstep::server {

// Threads: loop-confined. Ownership: the queue, and what the callbacks use, must outlive it.
// Bounds: `bytes_max` (`journal_queue_bytes_max`) of requests, or one larger one.
class DataBacklog {
 public:
  // Requests up to here never wait for a disk that is behind: signs of life among them.
  static constexpr size_t kSmallRequestBytes = size_t{16} << 10;

  using TakeUp = std::function<void(link::Request request, link::Responder responder)>;

  // `take_up` is given each request in its turn, on the loop; `resized` is called when `bytes` has
  // changed.
  DataBacklog(CommitQueue& commits, size_t bytes_max, TakeUp take_up,
              std::function<void()> resized);

  // Whether it is large and the disk is behind.
  bool MustWait(const link::Request& request) const;
  // OK; or reason "limit_reached": there is no room for it.
  absl::Status CheckRoom(const link::Request& request) const;
  // Takes its turn behind those that wait. After `CheckRoom` said OK.
  void Add(link::Request request, link::Responder responder);

  // Its caller gives up the request; false: it does not wait here.
  bool Cancel(link::LinkId link, uint64_t id);
  // Drops the requests of a link that has ended.
  void EndLink(link::LinkId link);
  // From here on no request waits for the disk.
  void StopWaiting() { waits_ = false; }
  // Takes up all that wait.
  void TakeUpAll();
  size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    link::Request request;
    link::Responder responder;
  };
  bool IsCrowded() const;
  void AwaitDisk();
  void TakeUpFirst();

  CommitQueue& commits_;
  const size_t bytes_max_;
  const TakeUp take_up_;
  const std::function<void()> resized_;
  std::list<Waiting> waiting_;
  size_t bytes_ = 0;
  bool waits_ = true;
  // Gone with this, for what the disk tells then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server
