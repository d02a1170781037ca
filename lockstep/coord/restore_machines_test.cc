// The records of the keys, the barriers and the agreements: whichever way a machine is restored, it
// answers as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/barrier_table.h"
#include "lockstep/coord/index_agreement.h"
#include "lockstep/coord/key_harness.h"

namespace lockstep::coord {
namespace {

constexpr int kRuns = 40;
constexpr int kSteps = 300;

// A restored machine gets those records that are its own.
template <class Machine>
void ApplyTo(Machine& machine, Time at, const Record& record) {
  std::visit(
      [&](const auto& r) {
        if constexpr (requires { machine.Apply(at, r); }) {
          const absl::Status applied = machine.Apply(at, r);
          EXPECT_TRUE(applied.ok()) << applied;
        }
      },
      record);
}

template <class Machine>
void ApplySnapshot(const Machine& from, Machine& to) {
  std::vector<TimedRecord> records;
  from.Snapshot(records);
  for (const TimedRecord& record : records) ApplyTo(to, record.at, record.record);
}

std::string Picture(const KeyValues& keys) {
  Effects out;
  keys.List({.caller = {.call = CallId(1), .session = {1, 1}}}, out);
  const auto& listed = std::get<KeysListed>(out.replies.at(0).answer);
  std::string text =
      absl::StrCat("r", listed.revision, " ", keys.table().size(), " keys ", keys.table().bytes(),
                   " bytes, next ", keys.NextDeadline().nanoseconds());
  for (const KeyValue& entry : listed.entries) {
    absl::StrAppend(&text, " ", entry.key, "=", *entry.value, "@", entry.revision);
  }
  return text;
}

class KeysRestored : public NativeKeys, public testing::WithParamInterface<int> {};

TEST_P(KeysRestored, AnswerAsBefore) {
  std::mt19937 random(GetParam());
  auto pick = [&](int n) { return static_cast<int>(random() % n); };
  auto key = [&] { return absl::StrCat("k", pick(3), pick(2) ? absl::StrCat("/", pick(4)) : ""); };
  KeyValues from_records(options_);
  KeyValues from_middle(options_);  // a snapshot, and the records behind it
  size_t applied = 0;
  const int middle = pick(kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const Time now = At(step);
    switch (pick(9)) {
      case 0:
      case 1:
      case 2: {
        KeyLifetime lifetime;
        if (pick(3) == 0) lifetime.ttl = absl::Seconds(1 + pick(50));
        Set(key(), absl::StrCat(step), lifetime,
            pick(3) == 0 ? std::optional<int32_t>(pick(3)) : std::nullopt, now);
        break;
      }
      case 3:
        Increment(absl::StrCat("n", pick(3)), pick(100), now);
        break;
      case 4:
        Max(absl::StrCat("n", pick(3)), pick(1000));
        break;
      case 5:
        Delete(key(), /*below=*/pick(2));
        break;
      case 6:
        CompareAndSet(key(), {.absent = true}, absl::StrCat(step));
        break;
      case 7:
        keys_.MemberGone(MemberIndex(pick(3)), out_);
        break;
      case 8:
        keys_.ReachDeadline(now, out_);
        break;
    }
    for (; applied < out_.records.size(); ++applied) {
      ApplyTo(from_records, now, out_.records[applied]);
      if (step > middle) ApplyTo(from_middle, now, out_.records[applied]);
    }
    if (step == middle) ApplySnapshot(keys_, from_middle);
  }
  ASSERT_GT(out_.records.size(), 50u);
  KeyValues from_snapshot(options_);
  ApplySnapshot(keys_, from_snapshot);

  for (KeyValues* restored : {&from_records, &from_middle, &from_snapshot}) {
    EXPECT_EQ(Picture(*restored), Picture(keys_));
  }
  // What is owned, and by when, comes out as the keys die.
  for (int step = 0; step < 3; ++step) {
    for (KeyValues* each : {&keys_, &from_records, &from_middle, &from_snapshot}) {
      each->MemberGone(MemberIndex(step), out_);
      each->ReachDeadline(At(kSteps + 10 * step), out_);
    }
    for (KeyValues* restored : {&from_records, &from_middle, &from_snapshot}) {
      EXPECT_EQ(Picture(*restored), Picture(keys_));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KeysRestored, testing::Range(0, kRuns));

using KeysApplied = NativeKeys;

TEST_F(KeysApplied, AWatchGoesOnFromWhereItWas) {
  Set("a", "1");
  Set("b", "1");
  KeyValues restored(options_);
  ApplySnapshot(keys_, restored);
  Set("c", "1");
  Delete("a");
  for (size_t i = 2; i < 4; ++i) ApplyTo(restored, Time(), out_.records.at(i));

  auto watch = [&](int64_t after) {
    const Caller caller = Next();
    restored.Watch({.caller = caller, .after = after}, true, out_);
    return Text(caller.call);
  };
  EXPECT_EQ(watch(5), "waits");
  EXPECT_EQ(watch(3), "c=1@4 a=nil@5 r5");
  EXPECT_EQ(watch(2), "b=1@3 c=1@4 r5 snapshot");
}

TEST_F(KeysApplied, RecordsInAWrongOrderAreRefused) {
  const auto value = std::make_shared<const std::string>("v");
  EXPECT_TRUE(keys_.Apply(Time(), record::KeySet{.key = "a", .value = value, .revision = 5}).ok());
  EXPECT_FALSE(keys_.Apply(Time(), record::KeySet{.key = "a", .value = value, .revision = 4}).ok());
  EXPECT_FALSE(keys_.Apply(Time(), record::KeySet{.key = "b", .value = value}).ok());
  EXPECT_FALSE(keys_.Apply(Time(), record::KeySet{.key = "b", .revision = 9}).ok());
  EXPECT_FALSE(keys_.Apply(Time(), record::KeyDeleted{.key = "a", .revision = 4}).ok());
}

// Barriers and agreements of three members, under a random load.
class GatheringsRestored : public testing::TestWithParam<int> {
 protected:
  GatheringsRestored()
      : job_({.size = 3, .kept_barrier_values_bytes_max = 12, .kept_barriers_max = 5}),
        membership_(job_) {
    for (int32_t i = 0; i < 3; ++i) {
      membership_.BeginLife(Time(), MemberIndex(i), Incarnation(100 + i), "");
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  ArriveAtBarrier Arrival(int32_t member, int id, int64_t counter) {
    ArriveAtBarrier arrival{.caller = NextCaller(),
                            .member = MemberIndex(member),
                            .id = absl::StrCat("b", id),
                            .counter = counter,
                            .timeout = absl::Seconds(5),
                            .value = absl::StrCat(member)};
    if (id % 2 == 1) arrival.members = {MemberIndex(0), MemberIndex(1)};
    return arrival;
  }
  AgreeOnIndex Question(int32_t member, int id, int64_t counter) {
    AgreeOnIndex question{.caller = NextCaller(),
                          .member = MemberIndex(member),
                          .name = absl::StrCat("b", id),
                          .counter = counter,
                          .index = member + 10,
                          .timeout = absl::Seconds(5)};
    if (id % 2 == 1) question.members = {MemberIndex(0), MemberIndex(1)};
    return question;
  }
  Caller NextCaller() { return {.call = CallId(++last_call_), .session = {1, 1}}; }

  static std::string Text(const Effects& out) {
    std::string text;
    for (const Reply& reply : out.replies) {
      if (reply.error) {
        absl::StrAppend(&text, ToString(*reply.error));
      } else if (const auto* agreed = std::get_if<IndexAgreed>(&reply.answer)) {
        absl::StrAppend(&text, "agreed ", agreed->counter, " ", agreed->index);
      } else {
        const auto& passed = std::get<BarrierPassed>(reply.answer);
        absl::StrAppend(&text, "passed ", passed.counter);
        for (size_t i = 0; passed.values && i < passed.values->size(); ++i) {
          absl::StrAppend(&text, " ", passed.values->at(i).value);
        }
      }
      absl::StrAppend(&text, "; ");
    }
    return text.empty() ? "waits" : text;
  }
  // What each member is told that asks for each instance again.
  std::string Picture(BarrierTable& table) {
    std::string text;
    for (int id = 0; id < 8; ++id) {
      for (int64_t counter = 0; counter < 12; ++counter) {
        Effects out;
        const ArriveAtBarrier arrival = Arrival(id % 2, id, counter);
        table.Arrive(At(1e6), arrival, out);
        table.Forget(arrival.caller.call);
        absl::StrAppend(&text, id, " ", counter, " ", Text(out), "\n");
      }
    }
    return text;
  }
  std::string Picture(IndexAgreement& agreements) {
    std::string text;
    for (int id = 0; id < 8; ++id) {
      for (int64_t counter = 0; counter < 12; ++counter) {
        Effects out;
        const AgreeOnIndex question = Question(id % 2, id, counter);
        agreements.Ask(At(1e6), question, out);
        agreements.Forget(question.caller.call);
        absl::StrAppend(&text, id, " ", counter, " ", Text(out), "\n");
      }
    }
    return text;
  }

  JobRecord job_;
  Membership membership_;
  uint64_t last_call_ = 0;
};

TEST_P(GatheringsRestored, AnswerAsBefore) {
  std::mt19937 random(GetParam());
  auto pick = [&](int n) { return static_cast<int>(random() % n); };
  BarrierTable table(job_, membership_);
  IndexAgreement agreements(job_, membership_);
  Effects out;
  std::vector<CallId> calls;
  for (int step = 0; step < kSteps; ++step) {
    const Time now = At(step);
    table.ReachDeadline(now, out);
    agreements.ReachDeadline(now, out);
    const int64_t counter = step / 30;
    const int32_t member = pick(3);
    const int id = pick(8);
    if (pick(10) == 0 && !calls.empty()) {
      table.Forget(calls[random() % calls.size()]);
    } else if (pick(2) == 0) {
      const ArriveAtBarrier arrival = Arrival(member, id, counter);
      table.Arrive(now, arrival, out);
      calls.push_back(arrival.caller.call);
    } else {
      agreements.Ask(now, Question(member, id, counter), out);
    }
  }
  // Those that are open have no verdict; nobody waits for them here.
  table.ReachDeadline(At(2 * kSteps), out);
  agreements.ReachDeadline(At(2 * kSteps), out);
  ASSERT_GT(out.records.size(), 20u);

  BarrierTable table_from_records(job_, membership_);
  BarrierTable table_from_snapshot(job_, membership_);
  IndexAgreement agreements_from_records(job_, membership_);
  IndexAgreement agreements_from_snapshot(job_, membership_);
  for (const Record& record : out.records) {
    ApplyTo(table_from_records, Time(), record);
    ApplyTo(agreements_from_records, Time(), record);
  }
  ApplySnapshot(table, table_from_snapshot);
  ApplySnapshot(agreements, agreements_from_snapshot);

  EXPECT_EQ(table_from_records.kept(), table.kept());
  EXPECT_EQ(agreements_from_records.kept(), agreements.kept());
  const std::string expected = Picture(table);
  EXPECT_EQ(Picture(table_from_records), expected);
  EXPECT_EQ(Picture(table_from_snapshot), expected);
  const std::string agreed = Picture(agreements);
  EXPECT_EQ(Picture(agreements_from_records), agreed);
  EXPECT_EQ(Picture(agreements_from_snapshot), agreed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GatheringsRestored, testing::Range(0, kRuns));

}  // namespace
}  // namespace lockstep::coord
