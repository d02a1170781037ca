// Who tells that this host will be taken away, asked by the members of a job themselves. Public; a
// library of its own: lockstep::notices.
//
//   auto me = lockstep::Join();
//   auto preemption = lockstep::Preemption::Open(**me);
//   auto notices = lockstep::HostNotices::Start(**me, {.sources = {"auto", "signal"}});
//
// `lockstep run` does the same for programs that know nothing of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lockstep {

class Member;

struct HostNoticesOptions {
  // Each NAME or NAME:KEY=VALUE,...: docs/preemption-sources.md. `auto`: what fits this host.
  std::vector<std::string> sources = {"auto"};
  // Of all members of the job on this host only one looks at the sources but `signal`, and another
  // one when it has ended. False: this one does, whoever else may.
  bool once_a_host = true;
};

struct SourceState {
  std::string source;
  std::string detail;                          // what it looks at
  bool healthy = false;                        // its last look went well
  std::optional<absl::Duration> last_success;  // so long ago
  std::string last_error;                      // one sentence; kept when it is healthy again
  int64_t successes = 0;
  int64_t failures = 0;
  int64_t notices = 0;  // that stand now
};

// Tells the job's coordinator what the sources learn, from `Start` until it is destroyed: all
// members of the job on this host are said to die. Thread-safe. In a forked child it tells nothing.
class HostNotices {
 public:
  // INVALID_ARGUMENT: a source that there is not, or a wrong option. Another error: a source that
  // cannot start, such as a signal that is watched already.
  static absl::StatusOr<std::unique_ptr<HostNotices>> Start(Member& member,
                                                            HostNoticesOptions options = {});
  ~HostNotices();
  HostNotices(const HostNotices&) = delete;
  HostNotices& operator=(const HostNotices&) = delete;

  // Whether it is this process that looks.
  bool looking() const;
  // Of each source, also of those that another process of the host looks at instead of this one.
  // Empty in a forked child.
  std::vector<SourceState> sources() const;

 private:
  class Impl;
  explicit HostNotices(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
