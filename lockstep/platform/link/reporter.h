// Reports to a server what happens to processes, for as long as their launcher lives.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/wire/native/process_messages.h"

namespace lockstep::link {

// Sends reports in order, one at a time, over a link that it makes and makes again when it breaks.
// A report whose link broke before the answer is sent again, so the server may see it twice.
//
// Threads: thread-safe; works on a thread of its own, which blocks all signals. No call but `Flush`
// and the destructor waits. After `fork` the child must not touch it; its socket is close-on-exec.
class Reporter {
 public:
  struct Options {
    std::string who = "lockstep reporter";  // pid and host are added
    LinkOptions link = {};
    // Reports that wait. One more drops the oldest: the newest fact about a process counts.
    size_t reports_max = 65536;
    // Between attempts to connect: doubled from the first to the last after each failure.
    absl::Duration backoff_first = absl::Milliseconds(50);
    absl::Duration backoff_last = absl::Seconds(2);
    // How long one attempt to connect, and one report's answer, may take.
    absl::Duration attempt_timeout = absl::Seconds(5);
    // Told once per trouble (cannot connect, report refused, reports dropped) and when it has
    // passed, on the reporter's thread; null: not told.
    std::function<void(std::string)> log = nullptr;
    // Why a link that was up broke, on the reporter's thread; null: not told.
    std::function<void(std::string)> lost = nullptr;
    // That there is one again after `lost`, likewise. With `lost` it is tried without a report,
    // too.
    std::function<void()> found = nullptr;
  };

  // `address`: as Servers::Read takes it.
  explicit Reporter(std::string address);
  Reporter(std::string address, Options options);
  // Ends at once; what was not sent is lost. `Flush` before it.
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // Waits for nothing. Behind `reports_max` that wait, the oldest of them is dropped.
  void Report(wire::native::ProcessReport report);

  // Waits until everything reported so far has been answered (or refused), at most `timeout`.
  // Returns whether it has.
  bool Flush(absl::Duration timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::link
