#include "lockstep/coord/stock_preemption.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace lockstep::coord {
namespace {

// Upstream's, unchanged since 2022.
constexpr absl::string_view kCounterKeys = "PREEMPTION_CURRENT_COUNTER/";
constexpr absl::string_view kBarrier = "PREEMPTION_SYNC_BARRIER";
// A death of the past: stock clients then agree at once. When it is time is for us to say.
constexpr char kNow[] = "1970-01-01T00:00:00+00:00";

void Append(Effects from, Effects& to) {
  std::move(from.records.begin(), from.records.end(), std::back_inserter(to.records));
  std::move(from.replies.begin(), from.replies.end(), std::back_inserter(to.replies));
  std::move(from.log.begin(), from.log.end(), std::back_inserter(to.log));
}

}  // namespace

void StockPreemption::ObserveStockKey(Time now, const SetKey& request, Effects& out) {
  // Native members speak to PreemptionSync themselves.
  if (request.caller.native()) return;
  absl::string_view name = request.key;
  if (name == kStockNoticeKey) return ReadNotice(now, request, out);
  if (!absl::ConsumePrefix(&name, kCounterKeys)) return;
  // "/job:<role>/task:<index>", or the index alone.
  int32_t first = 0;
  if (absl::ConsumePrefix(&name, "/job:")) {
    const size_t end = name.find("/task:");
    const RoleRecord* role = nullptr;
    // Any client may set any key; what names no member is just a key.
    if (end == name.npos || job_.roles().Find(std::string(name.substr(0, end)), &role)) return;
    first = role->first;
    name.remove_prefix(end + 6);
  }
  int32_t index = 0;
  int64_t counter = 0;
  if (!absl::SimpleAtoi(name, &index) || !absl::SimpleAtoi(request.value, &counter)) return;
  // Before the sum, which must not overflow.
  if (index < 0 || index >= job_.options.size) return;
  const MemberIndex member(first + index);
  if (job_.IsMember(member)) preemption_.StockAnswered(now, member, counter, out);
}

void StockPreemption::ReadNotice(Time now, const SetKey& request, Effects& out) {
  const std::optional<MemberIndex> member = membership_.Find(request.caller.incarnation);
  // JAX takes every SIGTERM for a preemption, also that by which its launcher ends a failed job.
  if (member && job_.processes[member->value()].ending) return;
  // A task speaks for itself alone, and it has not said who it is.
  if (!member && request.caller.standing == Standing::kTask) return;
  NotifyPreemption notice{.source = "jax", .event = request.key};
  // From a caller that is no member it is about everybody.
  if (member) notice.subjects.push_back(*member);
  Effects unanswered;  // nobody asked
  preemption_.Handle(now, notice, unanswered);
  unanswered.replies.clear();
  Append(std::move(unanswered), out);
}

void StockPreemption::Settle(Time now, Effects& out) {
  // Only a hold can end by the stock barrier; at other times it is like any other.
  if (preemption_.state().phase == PreemptionPhase::kHolding) {
    std::optional<bool> passed;
    for (const Record& record : out.records) {
      const auto* ended = std::get_if<record::BarrierEnded>(&record);
      if (ended != nullptr && ended->id == kBarrier) passed = ended->verdict == nullptr;
    }
    if (passed) preemption_.StockMet(now, *passed, out);
  }
  // After the barrier was read: members are told of a hold that is still open.
  if (!preemption_.TakeStockNotice()) return;
  Effects unanswered;
  keys_.Set(now, SetKey{.key = std::string(kStockNoticeKey), .value = kNow}, std::nullopt,
            unanswered);
  std::erase_if(unanswered.replies, [](const Reply& reply) { return reply.call == CallId(); });
  Append(std::move(unanswered), out);
}

}  // namespace lockstep::coord
