#include "lockstep/sim/native_mutant.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

namespace record = coord::record;

template <class T, class Variant>
bool Holds(const Variant& variant) {
  return std::holds_alternative<T>(variant);
}

}  // namespace

absl::string_view NameOf(NativeMutation mutation) {
  static constexpr absl::string_view kNames[] = {
      "ForgetsWrites",        "ForgetsDeletions",  "ForgetsAnswers",
      "ForgetsVerdicts",      "ForgetsAgreements", "ForgetsSessions",
      "ForgetsMembers",       "IsAnotherService",  "SnapshotLosesAKey",
      "TakesRetriesForNew",   "AddsTwice",         "SwapsRegardless",
      "ReadsTheOldValue",     "DeletesNothing",    "HidesAChange",
      "TellsALaterRevision",  "PassesEarly",       "LosesABroughtValue",
      "MixesUpBroughtValues", "AgreesTooEarly",    "AgreesDifferently",
      "GivesAnIndexTwice"};
  static_assert(std::size(kNames) == kNativeMutations);
  return kNames[static_cast<size_t>(mutation)];
}

bool NativeMutantMachine::Drops(const coord::Record& record) const {
  return (Is(NativeMutation::kForgetsWrites) && Holds<record::KeySet>(record)) ||
         (Is(NativeMutation::kForgetsDeletions) && Holds<record::KeyDeleted>(record)) ||
         (Is(NativeMutation::kForgetsAnswers) && Holds<record::AnswerKept>(record)) ||
         (Is(NativeMutation::kForgetsVerdicts) && Holds<record::BarrierEnded>(record)) ||
         (Is(NativeMutation::kForgetsAgreements) && Holds<record::IndexAgreed>(record)) ||
         (Is(NativeMutation::kForgetsSessions) && Holds<record::SessionChanged>(record)) ||
         (Is(NativeMutation::kForgetsMembers) && Holds<record::MemberChanged>(record));
}

absl::Status NativeMutantMachine::Apply(Time at, const coord::Record& record) {
  if (Drops(record)) return absl::OkStatus();
  if (const auto* began = std::get_if<record::AttemptBegan>(&record);
      began != nullptr && Is(NativeMutation::kIsAnotherServiceAfter)) {
    record::AttemptBegan another = *began;
    another.service = ServiceIncarnation(another.service.value() + 1);
    return real_.Apply(at, another);
  }
  return real_.Apply(at, record);
}

std::vector<coord::TimedRecord> NativeMutantMachine::Snapshot() const {
  std::vector<coord::TimedRecord> records = real_.Snapshot();
  if (!Is(NativeMutation::kSnapshotLosesAKey)) return records;
  auto key = std::find_if(records.begin(), records.end(), [](const coord::TimedRecord& timed) {
    return Holds<record::KeySet>(timed.record);
  });
  if (key != records.end()) records.erase(key);
  return records;
}

coord::Effects NativeMutantMachine::Handle(Time now, coord::Event event) {
  // Never one that was used before, also not by the machine before a restart.
  strange_number_ = std::max(strange_number_, static_cast<uint64_t>(now.nanoseconds()) << 16);
  coord::Effects before;
  if (Is(NativeMutation::kAddsTwice) && Holds<coord::IncrementKey>(event) && Now()) {
    coord::Event extra = event;
    CallerOf(extra)->number = ++strange_number_;
    before = real_.Handle(now, std::move(extra));
    before.replies.clear();
  }
  SpoilEvent(now, event);
  const std::optional<CallId> call = RequestCall(event);
  const bool arrival = Holds<coord::ArriveAtBarrier>(event);
  coord::Effects effects = real_.Handle(now, std::move(event));
  for (coord::Reply& reply : effects.replies) SpoilReply(reply);
  if (Is(NativeMutation::kPassesEarly) && arrival && effects.replies.empty() && Now()) {
    effects.Succeed(*call, coord::BarrierPassed{});
  }
  effects.records.insert(effects.records.begin(), before.records.begin(), before.records.end());
  return effects;
}

void NativeMutantMachine::SpoilEvent(Time now, coord::Event& event) {
  if (Is(NativeMutation::kTakesRetriesForNew)) {
    if (auto* answered = std::get_if<coord::AnsweredThrough>(&event)) answered->number = 0;
    coord::Caller* caller = CallerOf(event);
    if (caller != nullptr && caller->native()) caller->number = ++strange_number_;
  }
  if (auto* deletion = std::get_if<coord::DeleteKey>(&event);
      deletion != nullptr && Is(NativeMutation::kDeletesNothing) && Now()) {
    // The key comes back at once.
    coord::Effects read =
        real_.Handle(now, coord::TryGetKey{.caller = {.call = deletion->caller.call,
                                                      .session = deletion->caller.session,
                                                      .number = ++strange_number_},
                                           .key = deletion->key});
    if (read.replies.empty() || read.replies.front().error) return;
    // Deleted is a key of another name, which is set for it first.
    coord::SetKey decoy{.caller = deletion->caller, .key = deletion->key + "/decoy"};
    decoy.caller.number = ++strange_number_;
    real_.Handle(now, decoy);
    deletion->key += "/decoy";
  }
}

void NativeMutantMachine::SpoilReply(coord::Reply& reply) {
  if (reply.error) return;
  if (auto* swapped = std::get_if<coord::KeySwapped>(&reply.answer)) {
    if (Is(NativeMutation::kSwapsRegardless) && Now()) swapped->swapped = true;
  } else if (auto* read = std::get_if<coord::KeyRead>(&reply.answer)) {
    if (!Is(NativeMutation::kReadsTheOldValue) || read->entry.value == nullptr) return;
    std::string& last = last_read_[read->entry.key];
    const std::string current = *read->entry.value;
    if (!last.empty() && last != current && Now()) {
      read->entry.value = std::make_shared<const std::string>(last);
    }
    last = current;
  } else if (auto* changed = std::get_if<coord::KeysChanged>(&reply.answer)) {
    if (Is(NativeMutation::kHidesAChange) && !changed->snapshot && changed->changes.size() > 1 &&
        Now()) {
      changed->changes.pop_back();
    }
    if (Is(NativeMutation::kTellsALaterRevision) && Now()) changed->revision += 1;
  } else if (auto* passed = std::get_if<coord::BarrierPassed>(&reply.answer)) {
    SpoilValues(*passed);
  } else if (auto* agreed = std::get_if<coord::IndexAgreed>(&reply.answer)) {
    if (Is(NativeMutation::kAgreesTooEarly) && Now()) agreed->index -= 5;
    if (Is(NativeMutation::kAgreesDifferently) && Now()) agreed->index += 5;
  } else if (auto* joined = std::get_if<coord::Joined>(&reply.answer)) {
    if (Is(NativeMutation::kGivesAnIndexTwice)) joined->member = MemberIndex(0);
  }
}

void NativeMutantMachine::SpoilValues(coord::BarrierPassed& passed) {
  if (passed.values == nullptr || passed.values->size() < 2) return;
  std::vector<coord::MemberValue> values = *passed.values;
  if (Is(NativeMutation::kLosesABroughtValue) && Now()) {
    values.pop_back();
  } else if (Is(NativeMutation::kMixesUpBroughtValues) && Now()) {
    std::swap(values.front().value, values.back().value);
  } else {
    return;
  }
  passed.values = std::make_shared<const std::vector<coord::MemberValue>>(std::move(values));
}

}  // namespace lockstep::sim
