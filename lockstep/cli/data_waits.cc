#include "lockstep/cli/data_waits.h"

#include <thread>

#include "lockstep/platform/link/client.h"
#include "lockstep/wire/native/data_status_messages.h"

namespace lockstep::cli {
namespace {

// A reader that keeps up does not wait for the same thing for so long.
constexpr absl::Duration kBetweenAsks = absl::Milliseconds(500);

}  // namespace

std::vector<observe::DataWait> DataWaitsAt(const std::string& coordinator,
                                           const wire::native::JobStatus& job,
                                           absl::Duration timeout) {
  const auto client = link::Client::Connect(coordinator, timeout, {.who = "lockstep why"});
  if (!client.ok()) return {};
  const auto ask = [&] { return (*client)->Call(wire::native::DataStatus{}, timeout); };
  const auto before = ask();
  // As if it had been so for long: when nobody waits by that, nobody does.
  if (!before.ok() || observe::DataWaitsOf(job, *before, *before).empty()) return {};
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(kBetweenAsks));
  const auto now = ask();
  if (!now.ok()) return {};
  return observe::DataWaitsOf(job, *now, *before);
}

}  // namespace lockstep::cli
