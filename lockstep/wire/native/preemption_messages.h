// What native clients and tools say of preemptions, and are told. Contract:
// proto/lockstep/v1/preemption.proto. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {
// As coord::PreemptionPhase, from 1 on; likewise the next two.
enum class PreemptionPhase : int32_t {
  kUnspecified = 0,
  kNone = 1,
  kPending = 2,
  kFencing = 3,
  kAgreed = 4,
  kEnded = 5,
};

constexpr std::array<EnumName<PreemptionPhase>, 6> EnumNames(PreemptionPhase) {
  using enum PreemptionPhase;
  return {{{kUnspecified, "unspecified"},
           {kNone, "none"},
           {kPending, "pending"},
           {kFencing, "fencing"},
           {kAgreed, "agreed"},
           {kEnded, "ended"}}};
}

enum class PreemptionOutcome : int32_t {
  kUnspecified = 0,
  kNone = 1,
  kSaved = 2,
  kSynced = 3,
  kPartlySaved = 4,
  kNotSaved = 5,
  kCannotSaveInTime = 6,
  kNoCommonStep = 7,
  kFinished = 8,
  kCancelled = 9,
  kNobodyAnswered = 10,
};

constexpr std::array<EnumName<PreemptionOutcome>, 11> EnumNames(PreemptionOutcome) {
  using enum PreemptionOutcome;
  return {{{kUnspecified, "unspecified"},
           {kNone, "none"},
           {kSaved, "saved"},
           {kSynced, "synced"},
           {kPartlySaved, "partly_saved"},
           {kNotSaved, "not_saved"},
           {kCannotSaveInTime, "cannot_save_in_time"},
           {kNoCommonStep, "no_common_step"},
           {kFinished, "finished"},
           {kCancelled, "cancelled"},
           {kNobodyAnswered, "nobody_answered"}}};
}

enum class SyncState : int32_t {
  kUnspecified = 0,
  kAsked = 1,
  kSilent = 2,
  kUnstarted = 3,
  kFenced = 4,
  kPassed = 5,
  kReached = 6,
  kSaved = 7,
  kFailed = 8,
  kFinished = 9,
  kGone = 10,
  kLate = 11,
};

constexpr std::array<EnumName<SyncState>, 12> EnumNames(SyncState) {
  using enum SyncState;
  return {{{kUnspecified, "unspecified"},
           {kAsked, "asked"},
           {kSilent, "silent"},
           {kUnstarted, "unstarted"},
           {kFenced, "fenced"},
           {kPassed, "passed"},
           {kReached, "reached"},
           {kSaved, "saved"},
           {kFailed, "failed"},
           {kFinished, "finished"},
           {kGone, "gone"},
           {kLate, "late"}}};
}

struct PreemptionNotice {
  std::string source;
  std::string event;
  // Indices of who will die; empty: everybody.
  std::vector<int32_t> subjects;
  // Absent: it does not say. Below zero: it has passed.
  std::optional<int64_t> death_in_us;
  std::string text;

  friend bool operator==(const PreemptionNotice&, const PreemptionNotice&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PreemptionNotice";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "source", &PreemptionNotice::source),
                           Field(2, "event", &PreemptionNotice::event),
                           Field(3, "subjects", &PreemptionNotice::subjects),
                           Field(4, "death_in_us", &PreemptionNotice::death_in_us),
                           Field(5, "text", &PreemptionNotice::text));
  }
};

struct PreemptionState {
  // Goes up with every change.
  int64_t version = 0;
  // Of the preemption in its attempt, from 1 up; 0: there was none.
  int64_t id = 0;
  PreemptionPhase phase = PreemptionPhase::kUnspecified;
  // Who is asked again is asked with another round.
  int64_t round = 0;
  std::optional<int64_t> sync_step;
  // The notices were withdrawn after the sync step was known.
  bool withdrawn = false;
  PreemptionOutcome outcome = PreemptionOutcome::kUnspecified;
  // Of the outcome: one sentence.
  std::string text;
  std::vector<PreemptionNotice> notices;
  // The earliest of the notices.
  std::optional<int64_t> death_in_us;
  // When the phase began.
  int64_t since_ago_us = 0;
  // The attempt of the job that `id` counts in.
  int64_t attempt = 0;

  friend bool operator==(const PreemptionState&, const PreemptionState&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PreemptionState";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &PreemptionState::version), Field(2, "id", &PreemptionState::id),
        Field(3, "phase", &PreemptionState::phase), Field(4, "round", &PreemptionState::round),
        Field(5, "sync_step", &PreemptionState::sync_step),
        Field(6, "withdrawn", &PreemptionState::withdrawn),
        Field(7, "outcome", &PreemptionState::outcome), Field(8, "text", &PreemptionState::text),
        Field(9, "notices", &PreemptionState::notices),
        Field(10, "death_in_us", &PreemptionState::death_in_us),
        Field(11, "since_ago_us", &PreemptionState::since_ago_us),
        Field(12, "attempt", &PreemptionState::attempt));
  }
};

struct SyncMember {
  int32_t member = 0;
  SyncState state = SyncState::kUnspecified;
  // That it offered, reached or saved.
  std::optional<int64_t> step;
  // Where it saved, or why it did not.
  std::string text;

  friend bool operator==(const SyncMember&, const SyncMember&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SyncMember";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "member", &SyncMember::member), Field(2, "state", &SyncMember::state),
        Field(3, "step", &SyncMember::step), Field(4, "text", &SyncMember::text));
  }
};

// The current preemption, or the last one.
struct PreemptionStatus {
  PreemptionState state;
  std::vector<SyncMember> members;

  friend bool operator==(const PreemptionStatus&, const PreemptionStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PreemptionStatus";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "state", &PreemptionStatus::state),
                           Field(2, "members", &PreemptionStatus::members));
  }
};

enum class NoticeAct : int32_t {
  kUnspecified = 0,
  kNotify = 1,
  // The death of a notice is at another time.
  kExtend = 2,
  kWithdraw = 3,
};

constexpr std::array<EnumName<NoticeAct>, 4> EnumNames(NoticeAct) {
  using enum NoticeAct;
  return {{{kUnspecified, "unspecified"},
           {kNotify, "notify"},
           {kExtend, "extend"},
           {kWithdraw, "withdraw"}}};
}

// Somebody has learnt that members will be preempted, or that they will not, or not yet.
struct NotifyPreemption {
  NoticeAct act = NoticeAct::kUnspecified;
  std::string source;
  // Its own name of it, the same when said again. Empty: a new one; else all that it said.
  std::string event;
  // None, and no host: the caller, or everybody when it is no member.
  std::vector<int32_t> subjects;
  // All members there.
  std::string host;
  // Until the death; absent: not known.
  std::optional<int64_t> left_us;
  std::string text;

  friend bool operator==(const NotifyPreemption&, const NotifyPreemption&) = default;
  static constexpr std::string_view kName = "lockstep.v1.NotifyPreemption";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "act", &NotifyPreemption::act),
                           Field(2, "source", &NotifyPreemption::source, kIdBytes),
                           Field(3, "event", &NotifyPreemption::event, kIdBytes),
                           Field(4, "subjects", &NotifyPreemption::subjects, kCheckedNumber, kMany),
                           Field(5, "host", &NotifyPreemption::host, kIdBytes),
                           Field(6, "left_us", &NotifyPreemption::left_us, kAnyNumber),
                           Field(7, "text", &NotifyPreemption::text, kSentenceBytes));
  }
};

struct NotifyPreemptionReply {
  int64_t preemption = 0;

  friend bool operator==(const NotifyPreemptionReply&, const NotifyPreemptionReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.NotifyPreemptionReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "preemption", &NotifyPreemptionReply::preemption));
  }
};

// Answered when the state has another version.
struct WatchPreemption {
  int64_t after = 0;
  // A member that polls its steps: it is asked where it is when a preemption opens.
  bool answers = false;

  friend bool operator==(const WatchPreemption&, const WatchPreemption&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchPreemption";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "after", &WatchPreemption::after, kCheckedNumber),
                           Field(2, "answers", &WatchPreemption::answers));
  }
};

struct WatchPreemptionReply {
  PreemptionState state;

  friend bool operator==(const WatchPreemptionReply&, const WatchPreemptionReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WatchPreemptionReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "state", &WatchPreemptionReply::state));
  }
};

// The member begins no step from `first` on until it knows the sync step.
struct AnswerFence {
  int64_t preemption = 0;
  // Absent: it has not begun its first.
  std::optional<int64_t> first;
  // It comes by `first`, `first` + stride... 0 counts as 1.
  int64_t stride = 0;
  // When it knows where its work ends.
  std::optional<int64_t> last_step;
  // 0: not known, as is the next.
  int64_t step_time_us = 0;
  int64_t save_time_us = 0;

  friend bool operator==(const AnswerFence&, const AnswerFence&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AnswerFence";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "preemption", &AnswerFence::preemption, kCheckedNumber),
                           Field(2, "first", &AnswerFence::first, kCheckedNumber),
                           Field(3, "stride", &AnswerFence::stride, kCheckedNumber),
                           Field(4, "last_step", &AnswerFence::last_step, kCheckedNumber),
                           Field(5, "step_time_us", &AnswerFence::step_time_us, kNatural),
                           Field(6, "save_time_us", &AnswerFence::save_time_us, kNatural));
  }
};

struct AnswerFenceReply {
  friend bool operator==(const AnswerFenceReply&, const AnswerFenceReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AnswerFenceReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// What the member has come to: reached, saved, failed or finished.
struct ReportSave {
  int64_t preemption = 0;
  SyncState state = SyncState::kUnspecified;
  std::optional<int64_t> step;
  std::string text;

  friend bool operator==(const ReportSave&, const ReportSave&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportSave";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "preemption", &ReportSave::preemption, kCheckedNumber),
                           Field(2, "state", &ReportSave::state),
                           Field(3, "step", &ReportSave::step, kCheckedNumber),
                           Field(4, "text", &ReportSave::text, kSentenceBytes));
  }
};

struct ReportSaveReply {
  friend bool operator==(const ReportSaveReply&, const ReportSaveReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReportSaveReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

}  // namespace lockstep::wire::native
