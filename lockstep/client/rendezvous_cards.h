// Where the members of a rendezvous can be reached: their cards, as keys of the job.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/client/call.h"
#include "lockstep/client/keys.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/rendezvous/transport/card.h"

namespace lockstep::client {

// One key for each member, which goes with it. A member has one card at a time, and so one open
// rendezvous. Threads: `Publish` and `Withdraw` of the threads that open and close; `Find` any.
class RendezvousCards {
 public:
  using Found = std::function<void(absl::StatusOr<transport::Card>)>;

  RendezvousCards(Keys keys, MemberIndex self, LoopDriver& loop)
      : keys_(std::move(keys)), self_(self), loop_(loop) {}

  // FAILED_PRECONDITION, `rendezvous_open`: there is one already. Or as `Keys::Set`.
  absl::Status Publish(const transport::Card& card, absl::Duration timeout,
                       const Interrupted& interrupted);
  // So that nobody goes to an address where nobody is. Nothing, if it was not published.
  void Withdraw();
  // Waits for it. `found` is called on the loop.
  void Find(MemberIndex member, Found found) const;

 private:
  const Keys keys_;
  const MemberIndex self_;
  LoopDriver& loop_;
  bool published_ = false;
};

}  // namespace lockstep::client
