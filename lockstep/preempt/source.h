// Sources of preemption notices: who tells that this host will die. Public face of the folder.
//
//   auto made = MakeSources({"auto", "file:path=/run/drain"}, BuiltinSources(), ThisHost());
//   if (!made.ok()) ...
//   SourceSet set(std::move(*made), {.on_event = [](const SourceEvent& event) { ... }});
//   set.Start();
//   ...
//   set.health();  // for `status`
//
// One set a host, not one a process. Names, options and lead times: docs/preemption-sources.md.
// (registry.h makes sources, source_set.h runs them.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::preempt {

enum class NoticeKind {
  kPreempt,      // the host, or our place on it, is taken away
  kMaintenance,  // the host is stopped, rebooted or moved, perhaps to come back
  kRebalance,    // the cloud expects to take it away, and promises nothing: a warning
  kTimeLimit,    // the scheduler's limit of wall time
  kOperator,     // a person said so
  kHealth,       // something on the host is failing
};
absl::string_view NoticeKindName(NoticeKind kind);
// Nullopt: no kind has this name.
std::optional<NoticeKind> FindNoticeKind(absl::string_view name);

// Something was learnt: a notice is new, another than before, or withdrawn.
struct SourceEvent {
  std::string source;  // its name: "gce", "signal"
  // The source's own name of what it tells of, else a hash of it. The same id again is the same
  // notice: extended, brought forward, or withdrawn.
  std::string id;
  NoticeKind kind = NoticeKind::kPreempt;
  // Until death, as of this call; zero: any moment. Absent: the source does not say.
  std::optional<absl::Duration> left;
  std::string text;  // one line for people
  bool withdrawn = false;
};

// How a source does, for `status` and metrics; counts are since it was started.
struct SourceHealth {
  std::string source;
  std::string detail;    // what it looks at, for people: "GET http://169.254.169.254/..."
  bool healthy = false;  // its last look went well; false before the first
  std::optional<Time> last_success;
  std::string last_error;  // one sentence, without secrets; kept when it is healthy again
  std::optional<Time> last_error_at;
  int64_t successes = 0;
  int64_t failures = 0;
  int64_t notices = 0;  // that stand now
};

// What sources call, on threads of their own: one call at a time of each source, none after `Stop`
// has returned. A call must not wait for long and must not stop the source.
struct SourceListener {
  // A notice, a change of one, or its withdrawal. Optional.
  std::function<void(const SourceEvent&)> on_event;
  // The source became healthy, or ceased to be. Optional.
  std::function<void(const SourceHealth&)> on_health;
};

// Threads: thread-safe but for `Start` and `Stop`, which one thread calls, once each. In a forked
// child a source tells nothing.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;  // as `Stop`

  virtual const std::string& name() const = 0;  // as it is registered; lives as long as the source
  // Fails only for what no waiting would mend: an address in use, a signal that is taken.
  virtual absl::Status Start(SourceListener listener) = 0;
  // Returns within moments, also when the other end hangs.
  virtual void Stop() = 0;
  virtual SourceHealth health() const = 0;  // for `status`; also before `Start` and after `Stop`
  // All is saved, the host may go: told to the other end where that is possible and configured.
  virtual void Acknowledge(const std::string& id) = 0;
};

}  // namespace lockstep::preempt
