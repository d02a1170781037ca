// Writes of keys, and arrivals with values, that wait, before they take effect, until the disk has
// caught up.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/server/commit_queue.h"

namespace lockstep::server {

// What the job holds more when this took effect: values and names, in bytes.
size_t GrowthOf(const coord::Event& event);
// Whether it may make the job hold more at all.
bool MayGrow(const coord::Event& event);

// Holds requests of one job while more than `queue_bytes_max` waits for the disk: those that write
// keys or bring a barrier a value, and whatever comes behind one of them in its session, so that a
// session's requests take effect in their order. Signs of life and facts never wait.
//
// Threads: loop-confined. Bounds: `queue_bytes_max` again for what is held here; beyond it writes
// are refused (`journal_queue_bytes_max`).
class WritesAwaitingDisk {
 public:
  using TakeUp = std::function<void(coord::Event)>;

  // `take_up`: gets what was held, in its order. `alive`: of the owner.
  WritesAwaitingDisk(CommitQueue& commits, size_t queue_bytes_max, TakeUp take_up,
                     std::weak_ptr<const bool> alive)
      : commits_(commits),
        queue_bytes_max_(queue_bytes_max),
        take_up_(std::move(take_up)),
        alive_(std::move(alive)) {}

  // Whether this request has to wait. Cheap while nothing does.
  bool Concerns(const coord::Event& event) const;
  // Takes it over, and returns null; or leaves it, and says why it is refused.
  coord::ErrorPtr Delay(coord::Event& event);

  // All that is held is taken up, whatever the disk does.
  void TakeUpAll();
  // What is held, as it costs.
  size_t bytes() const { return bytes_; }

 private:
  bool Crowded() const { return commits_.queued_bytes() >= queue_bytes_max_ && !commits_.idle(); }
  void AwaitDisk();
  void TakeUpFirst();

  CommitQueue& commits_;
  const size_t queue_bytes_max_;
  const TakeUp take_up_;
  const std::weak_ptr<const bool> alive_;
  std::deque<coord::Event> held_;
  absl::flat_hash_map<SessionId, size_t> sessions_;  // how many of each are held
  size_t bytes_ = 0;
};

}  // namespace lockstep::server
