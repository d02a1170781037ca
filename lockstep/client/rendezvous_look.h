// Tells people who look what a member's rendezvous waits for (`lockstep rendezvous`).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/client/keys.h"
#include "lockstep/rendezvous/view.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {

// Who looks sets a key of the job; we see it and set one of ours to a report. Nothing is said
// while nobody looks. Threads: thread-safe. Stops when destroyed.
class RendezvousLook {
 public:
  using MakeReport = std::function<wire::native::RendezvousReport()>;

  // `make_report` is called on a thread of the library.
  RendezvousLook(Keys keys, int32_t member, MakeReport make_report);
  ~RendezvousLook();

 private:
  std::unique_ptr<KeyWatch> watch_;
};

// The rows of a view in a report; names by index.
void AddView(const rendezvous::View& view, const std::vector<std::string>& names,
             wire::native::RendezvousReport& report);

}  // namespace lockstep::client
