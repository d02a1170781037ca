// What a launcher tells the server of the processes that it started. Contract:
// proto/lockstep/v1/process.proto. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

enum class ProcessEvent : int32_t {
  kUnspecified = 0,
  kStarted = 1,
  kEnded = 2,
  kStopped = 3,  // by SIGSTOP or a debugger
  kContinued = 4,
  kEnding = 5,  // soon: it raised `error`, or its launcher tells it to end
};

constexpr std::array<EnumName<ProcessEvent>, 6> EnumNames(ProcessEvent) {
  using enum ProcessEvent;
  return {{{kUnspecified, "unspecified"},
           {kStarted, "started"},
           {kEnded, "ended"},
           {kStopped, "stopped"},
           {kContinued, "continued"},
           {kEnding, "ending"}}};
}

// May arrive twice: who loses a link before the answer sends again.
struct ProcessReport {
  std::string job;
  int32_t member = 0;
  ProcessEvent event = ProcessEvent::kUnspecified;
  std::string host;  // where the process runs
  int64_t pid = 0;
  // Of an end; exactly one is meaningful: `signal` when it is not zero.
  int32_t exit_code = 0;
  int32_t signal = 0;
  // Of kEnding: the exception that ends it, on one line; empty: none does.
  std::string error;

  friend bool operator==(const ProcessReport&, const ProcessReport&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ProcessReport";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "job", &ProcessReport::job, kIdBytes),
                           Field(2, "member", &ProcessReport::member, kCheckedNumber),
                           Field(3, "event", &ProcessReport::event),
                           Field(4, "host", &ProcessReport::host, kNameBytes),
                           Field(5, "pid", &ProcessReport::pid, kPid),
                           Field(6, "exit_code", &ProcessReport::exit_code, kAnyNumber),
                           Field(7, "signal", &ProcessReport::signal, kSignal),
                           Field(8, "error", &ProcessReport::error, kSentenceBytes));
  }
};

struct ProcessReportReply {
  friend bool operator==(const ProcessReportReply&, const ProcessReportReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ProcessReportReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

}  // namespace lockstep::wire::native
