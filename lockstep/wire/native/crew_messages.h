// How the launchers of a run on several nodes agree. Contract: proto/lockstep/v1/crew.proto. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

enum class CrewStep : int32_t {
  kUnspecified = 0,
  kWait = 1,
  kBegin = 2,
  kCalledOff = 3,
  kEnded = 4,
};

constexpr std::array<EnumName<CrewStep>, 5> EnumNames(CrewStep) {
  using enum CrewStep;
  return {{{kUnspecified, "unspecified"},
           {kWait, "wait"},
           {kBegin, "begin"},
           {kCalledOff, "called_off"},
           {kEnded, "ended"}}};
}

enum class CrewWord : int32_t {
  kUnspecified = 0,
  kFailed = 1,
  kOver = 2,
  kLeaves = 3,
};

constexpr std::array<EnumName<CrewWord>, 4> EnumNames(CrewWord) {
  using enum CrewWord;
  return {
      {{kUnspecified, "unspecified"}, {kFailed, "failed"}, {kOver, "over"}, {kLeaves, "leaves"}}};
}

// A launcher asks what is next for it; parked for a few seconds at most.
struct PollCrew {
  std::string job;
  uint64_t node = 0;
  std::string host;
  int64_t pid = 0;
  int32_t processes = 0;
  std::optional<int32_t> node_rank;
  std::string run;
  int32_t nodes_least = 0;
  int32_t nodes_most = 0;
  int32_t max_restarts = 0;
  int64_t join_timeout_us = 0;
  int64_t last_call_us = 0;
  int64_t seen = 0;
  int64_t attempt = 0;
  int32_t attempt_rank = 0;
  int32_t attempt_nodes = 0;
  std::optional<int32_t> over;
  std::vector<std::string> addresses;
  int64_t restart_backoff_us = 0;
  int64_t restart_backoff_max_us = 0;

  friend bool operator==(const PollCrew&, const PollCrew&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PollCrew";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "job", &PollCrew::job, kIdBytes), Field(2, "node", &PollCrew::node, kAnyNumber),
        Field(3, "host", &PollCrew::host, kNameBytes), Field(4, "pid", &PollCrew::pid, kPid),
        Field(5, "processes", &PollCrew::processes, kCheckedNumber),
        Field(6, "node_rank", &PollCrew::node_rank, kCheckedNumber),
        Field(7, "run", &PollCrew::run, kNameBytes),
        Field(8, "nodes_least", &PollCrew::nodes_least, kCheckedNumber),
        Field(9, "nodes_most", &PollCrew::nodes_most, kCheckedNumber),
        Field(10, "max_restarts", &PollCrew::max_restarts, kCheckedNumber),
        Field(11, "join_timeout_us", &PollCrew::join_timeout_us, kCheckedNumber),
        Field(12, "last_call_us", &PollCrew::last_call_us, kCheckedNumber),
        Field(13, "seen", &PollCrew::seen, kCheckedNumber),
        Field(14, "attempt", &PollCrew::attempt, kCheckedNumber),
        Field(15, "attempt_rank", &PollCrew::attempt_rank, kNatural),
        Field(16, "attempt_nodes", &PollCrew::attempt_nodes, kNatural),
        Field(17, "over", &PollCrew::over, kAnyNumber),
        Field(18, "addresses", &PollCrew::addresses, kAddressBytes, kFew),
        Field(19, "restart_backoff_us", &PollCrew::restart_backoff_us, kCheckedNumber),
        Field(20, "restart_backoff_max_us", &PollCrew::restart_backoff_max_us, kCheckedNumber));
  }
};

struct PollCrewReply {
  CrewStep step = CrewStep::kUnspecified;
  int64_t number = 0;
  int64_t attempt = 0;
  int32_t node_rank = 0;
  int32_t nodes = 0;
  int32_t first_member = 0;
  int32_t size = 0;
  int32_t failures = 0;
  bool another = false;
  int32_t exit_code = 0;
  std::string why;
  int64_t job_attempt = 0;
  std::vector<std::string> addresses;

  friend bool operator==(const PollCrewReply&, const PollCrewReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PollCrewReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "step", &PollCrewReply::step), Field(2, "number", &PollCrewReply::number),
        Field(3, "attempt", &PollCrewReply::attempt),
        Field(4, "node_rank", &PollCrewReply::node_rank), Field(5, "nodes", &PollCrewReply::nodes),
        Field(6, "first_member", &PollCrewReply::first_member),
        Field(7, "size", &PollCrewReply::size), Field(8, "failures", &PollCrewReply::failures),
        Field(9, "another", &PollCrewReply::another),
        Field(10, "exit_code", &PollCrewReply::exit_code), Field(11, "why", &PollCrewReply::why),
        Field(12, "job_attempt", &PollCrewReply::job_attempt),
        Field(13, "addresses", &PollCrewReply::addresses));
  }
};

// A launcher says what became of its processes.
struct TellCrew {
  std::string job;
  uint64_t node = 0;
  int64_t attempt = 0;
  CrewWord word = CrewWord::kUnspecified;
  std::string text;
  int32_t exit_code = 0;
  bool again = false;
  std::string failure;

  friend bool operator==(const TellCrew&, const TellCrew&) = default;
  static constexpr std::string_view kName = "lockstep.v1.TellCrew";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "job", &TellCrew::job, kIdBytes), Field(2, "node", &TellCrew::node, kAnyNumber),
        Field(3, "attempt", &TellCrew::attempt, kCheckedNumber), Field(4, "word", &TellCrew::word),
        Field(5, "text", &TellCrew::text, kSentenceBytes),
        Field(6, "exit_code", &TellCrew::exit_code, kAnyNumber),
        Field(7, "again", &TellCrew::again),
        Field(8, "failure", &TellCrew::failure, kSentenceBytes));
  }
};

struct TellCrewReply {
  friend bool operator==(const TellCrewReply&, const TellCrewReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.TellCrewReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

}  // namespace lockstep::wire::native
