// Fuzz, kill, restart, without a process and without a clock: nearly valid requests to a
// coordinator, which dies again and again and is made anew from its records or from a snapshot, by
// way of their bytes. Whatever was asked, that never fails.
//
// LOCKSTEP_FUZZ_EVENTS says how many, LOCKSTEP_FUZZ_SEED where to begin.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/to_event.h"
#include "lockstep/wire/store/entry.h"
#include "tests/durability/filler.h"

namespace lockstep {
namespace {

constexpr int64_t kEventsByDefault = 200'000;
constexpr int64_t kEventsOfJob = 4000;
constexpr int32_t kSize = 4;

class Job {
 public:
  explicit Job(uint64_t seed) : filler_(seed) {
    options_ = {.job = "fuzz",
                .size = kSize,
                .recoverable = filler_.Below(4) == 0,
                .incarnation_seed = seed,
                .keys_max = 60,
                .kept_answers_max = 20,
                .kept_barriers_max = 10};
    if (filler_.Below(3) == 0) options_.roles = {{"worker", kSize - 1}, {"ps", 1}};
    machine_ = std::make_unique<coord::Coordinator>(options_);
  }

  void Step() {
    if (filler_.Below(8) == 0) now_ = now_ + absl::Milliseconds(filler_.Below(3000));
    switch (filler_.Below(20)) {
      case 0:
        return Tell(coord::DeadlineReached{});
      case 1:
        return Tell(coord::OpenSession{.call = Call(),
                                       .session = Session(),
                                       .resume = filler_.Below(3) == 0,
                                       .peer = "127.0.0.1:1"});
      case 2:
        return Tell(coord::SessionBroke{.session = Session()});
      case 3:
        return Tell(coord::CallLeft{CallId(1 + filler_.Below(calls_ + 1))});
      case 4:
        return Tell(coord::RegisterMember{.call = Call(),
                                          .member = Member(),
                                          .incarnation = Incarnation(1 + filler_.Below(5)),
                                          .deadline = now_ + absl::Seconds(20),
                                          .peer = "127.0.0.1:2"});
      case 5:
        return Process();
      case 6:
        return Tell(coord::AnsweredThrough{.session = Session(), .number = filler_.Below(200)});
      default:
        return Ask();
    }
  }

  // From its records alone, or from a snapshot and what came behind it.
  void Restart() {
    if (filler_.Below(2) == 0) {
      journal_.clear();
      std::vector<coord::TimedRecord> records = machine_->Snapshot();
      for (absl::Span<const coord::TimedRecord> rest = records; !rest.empty();) {
        std::string& entry = journal_.emplace_back();
        rest.remove_prefix(wire::store::EncodeRecords("fuzz", Moment(), rest, entry));
      }
    }
    machine_ = std::make_unique<coord::Coordinator>(options_);
    now_ = now_ + absl::Milliseconds(filler_.Below(60'000));
    for (const std::string& bytes : journal_) {
      const auto entry = wire::store::DecodeEntry(bytes, Moment());
      ASSERT_TRUE(entry.ok()) << entry.status();
      ASSERT_TRUE(entry->unfit.ok()) << entry->unfit;
      for (const coord::TimedRecord& record : entry->records) {
        const absl::Status applied = machine_->Apply(record.at, record.record);
        ASSERT_TRUE(applied.ok()) << applied;
      }
    }
    Tell(coord::Restored{});
  }

 private:
  CallId Call() { return CallId(++calls_); }
  SessionId Session() { return {.high = 0, .low = 1 + filler_.Below(8)}; }
  MemberIndex Member() { return MemberIndex(static_cast<int32_t>(filler_.Below(kSize + 2)) - 1); }
  wire::store::Moment Moment() const {
    return {.now = now_, .wall = absl::FromUnixSeconds(1'700'000'000) + (now_ - Time())};
  }

  void Process() {
    const MemberIndex member = Member();
    const auto pid = static_cast<int64_t>(filler_.Below(3));
    switch (filler_.Below(4)) {
      case 0:
        return Tell(coord::ProcessStarted{.member = member, .host = "host", .pid = pid});
      case 1:
        return Tell(coord::ProcessEnded{.member = member, .pid = pid, .signal = 9});
      case 2:
        return Tell(coord::ProcessStopped{.member = member, .pid = pid});
      default:
        return Tell(coord::RunBegan{.size = static_cast<int32_t>(filler_.Below(kSize + 2))});
    }
  }

  template <class Request>
  static void AskOne(Job& job) {
    const RequestContext from = {.caller = {.call = job.Call(),
                                            .session = job.Session(),
                                            .number = 1 + job.filler_.Below(200)},
                                 .now = job.now_,
                                 .peer = "127.0.0.1:3"};
    auto event = ToEvent(KindOf<Request>::kKind, job.filler_.Request<Request>(), from);
    if (event.ok()) job.Tell(*std::move(event));
  }

  void Ask() {
    using One = void (*)(Job&);
    static const std::vector<One> kAll = []<class... AnyRequest>(Requests<AnyRequest...>) {
      return std::vector<One>{&AskOne<AnyRequest>...};
    }(SessionRequests());
    if (filler_.Below(6) == 0) return AskOne<JoinJob>(*this);
    kAll[filler_.Below(kAll.size())](*this);
  }

  void Tell(coord::Event event) {
    const coord::Effects effects = machine_->Handle(now_, std::move(event));
    for (absl::Span<const coord::Record> rest = effects.records; !rest.empty();) {
      std::string& entry = journal_.emplace_back();
      rest.remove_prefix(wire::store::EncodeRecords("fuzz", Moment().wall, rest, entry));
    }
  }

  Filler filler_;
  coord::CoordinatorOptions options_;
  std::unique_ptr<coord::Coordinator> machine_;
  std::vector<std::string> journal_;
  Time now_ = Time::FromNanoseconds(1'000'000'000'000);
  uint64_t calls_ = 0;
};

TEST(FuzzRestore, Finding02_WhatARequestWroteCanAlwaysBeRead) {
  const int64_t events = Count("LOCKSTEP_FUZZ_EVENTS", kEventsByDefault);
  auto seed = static_cast<uint64_t>(Count("LOCKSTEP_FUZZ_SEED", 1));
  for (int64_t told = 0; told < events; told += kEventsOfJob, ++seed) {
    SCOPED_TRACE(absl::StrCat("LOCKSTEP_FUZZ_SEED=", seed));
    Job job(seed);
    for (int64_t i = 1; i <= kEventsOfJob; ++i) {
      job.Step();
      if (i % 250 == 0) job.Restart();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace lockstep
