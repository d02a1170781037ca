// What an attempt does with preemptions, and how it speaks of them with stock JAX members: by
// upstream's key, counters and barrier.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {
namespace {

// Upstream's, unchanged since 2022.
constexpr absl::string_view kCounterKeys = "PREEMPTION_CURRENT_COUNTER/";
constexpr absl::string_view kBarrier = "PREEMPTION_SYNC_BARRIER";
// A death of the past: stock clients then agree at once. When it is time is for us to say.
constexpr char kNow[] = "1970-01-01T00:00:00+00:00";

}  // namespace

void Attempt::Handle(Time now, const NotifyPreemption& asked, Effects& out) {
  NotifyPreemption request = asked;
  if (!request.host.empty()) {
    for (int32_t i = 0; i < job_.options.size; ++i) {
      if (job_.places[i].host == request.host || job_.processes[i].host == request.host) {
        request.subjects.emplace_back(i);
      }
    }
    if (request.subjects.empty()) {
      return out.Fail(
          request.caller.call,
          MakeError(absl::StatusCode::kNotFound, Reason::kUnknownMember,
                    absl::StrCat("no member of job '", job_.options.job, "' runs on host '",
                                 request.host, "'; `lockstep members` shows where they run")));
    }
  } else if (request.subjects.empty() && request.member) {
    request.subjects.push_back(*request.member);
  }
  std::sort(request.subjects.begin(), request.subjects.end());
  request.subjects.erase(std::unique(request.subjects.begin(), request.subjects.end()),
                         request.subjects.end());
  preemption_.Handle(now, request, out);
}

void Attempt::Handle(Time now, const WatchPreemption& request, Effects& out) {
  NoteLife(now, request.caller);
  if (MayPark(request.caller.call, out)) preemption_.Handle(now, request, out);
}

void Attempt::Handle(Time now, const AnswerFence& request, Effects& out) {
  if (!CheckCaller(request.member, request.caller, out)) return;
  preemption_.Handle(now, request, out);
}

void Attempt::Handle(Time now, const ReportSave& request, Effects& out) {
  if (!CheckCaller(request.member, request.caller, out)) return;
  preemption_.Handle(now, request, out);
}

void Attempt::ReadAlong(Time now, const SetKey& request, Effects& out) {
  if (request.caller.native()) return;
  absl::string_view name = request.key;
  if (name == kStockNoticeKey) {
    const std::optional<MemberIndex> member = membership_.Find(request.caller.incarnation);
    // JAX takes every SIGTERM for a preemption, also that by which its launcher ends a failed job.
    if (member && job_.processes[member->value()].ending) return;
    NotifyPreemption notice{.source = "jax", .event = std::string(name)};
    if (member) notice.subjects.push_back(*member);
    Effects unanswered;  // nobody asked
    preemption_.Handle(now, notice, unanswered);
    unanswered.replies.clear();
    return Append(std::move(unanswered), out);
  }
  if (!absl::ConsumePrefix(&name, kCounterKeys)) return;
  // "/job:<role>/task:<index>", or the index alone.
  int32_t first = 0;
  if (absl::ConsumePrefix(&name, "/job:")) {
    const size_t end = name.find("/task:");
    const RoleRecord* role = nullptr;
    if (end == name.npos || job_.FindRole(std::string(name.substr(0, end)), &role)) return;
    first = role->first;
    name.remove_prefix(end + 6);
  }
  int32_t index = 0;
  int64_t counter = 0;
  if (!absl::SimpleAtoi(name, &index) || !absl::SimpleAtoi(request.value, &counter)) return;
  if (index < 0 || index >= job_.options.size) return;
  const MemberIndex member(first + index);
  if (job_.IsMember(member)) preemption_.StockAnswered(now, member, counter, out);
}

void Attempt::SettlePreemption(Time now, Effects& out) {
  if (preemption_.state().phase == PreemptionPhase::kFencing) {
    std::optional<bool> passed;
    for (const Record& record : out.records) {
      const auto* ended = std::get_if<record::BarrierEnded>(&record);
      if (ended != nullptr && ended->id == kBarrier) passed = ended->verdict == nullptr;
    }
    if (passed) preemption_.StockMet(now, *passed, out);
  }
  if (preemption_.TakeStockNotice()) {
    Effects unanswered;
    keys_.Set(now, SetKey{.key = std::string(kStockNoticeKey), .value = kNow}, std::nullopt,
              unanswered);
    std::erase_if(unanswered.replies, [](const Reply& reply) { return reply.call == CallId(); });
    Append(std::move(unanswered), out);
  }
  preemption_.Flush(out);
}

void Attempt::RecordEnd(Time now, Effects& out) {
  RecordMembers(out);
  preemption_.AttemptEnds(now, out);
  preemption_.Flush(out);
}

void Attempt::Append(Effects from, Effects& to) {
  std::move(from.records.begin(), from.records.end(), std::back_inserter(to.records));
  std::move(from.replies.begin(), from.replies.end(), std::back_inserter(to.replies));
  std::move(from.notices.begin(), from.notices.end(), std::back_inserter(to.notices));
}

}  // namespace lockstep::coord
