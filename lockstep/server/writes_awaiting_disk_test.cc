#include "lockstep/server/writes_awaiting_disk.h"

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/memory_journal.h"
#include "lockstep/server/job_host.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using journal::MemoryJournal;
using journal::NewEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace native = wire::native;

// A disk that writes only when it is told to.
class SlowDisk : public ::testing::Test {
 protected:
  SlowDisk() {
    auto journal = std::make_unique<MemoryJournal>(disk_, MemoryJournal::Syncs::kWhenTold);
    journal_ = journal.get();
    EXPECT_TRUE(commits_
                    .Keep(
                        std::move(journal), [](const absl::Status&) {},
                        [] { return [] { return std::optional<std::string>(); }; })
                    .ok());
  }
  // What is durable is told, and what is posted runs.
  void Sync() {
    journal_->Sync();
    loop_.io().poll();
  }
  void Write(size_t bytes) {
    commits_.Commit(NewEntry() + std::string(bytes, 'x'), [](bool) {});
  }

  runtime::Loop loop_;
  const std::shared_ptr<journal::MemoryDisk> disk_ = std::make_shared<journal::MemoryDisk>();
  runtime::MemoryAccount memory_{0};
  CommitQueue commits_{loop_, &memory_};
  MemoryJournal* journal_ = nullptr;
};

class WritesAwaitingDiskTest : public SlowDisk {
 protected:
  static coord::Event Set(const std::string& key, uint64_t session, size_t bytes = 10) {
    return coord::SetKey{.caller = {.call = CallId(1), .session = {session, session}},
                         .key = key,
                         .value = std::string(bytes, 'v')};
  }
  static coord::Event Get(const std::string& key, uint64_t session) {
    return coord::GetKey{.caller = {.call = CallId(2), .session = {session, session}}, .key = key};
  }

  std::vector<std::string> taken_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  WritesAwaitingDisk writes_{commits_, 10'000,
                             [this](const coord::Event& event) {
                               const auto* set = std::get_if<coord::SetKey>(&event);
                               taken_.push_back(set != nullptr ? "set " + set->key : "other");
                             },
                             alive_};
};

TEST_F(WritesAwaitingDiskTest, Finding18_WritesWaitForADiskThatIsBehindAndOthersDoNot) {
  EXPECT_FALSE(writes_.Concerns(Set("a", 1)));
  Write(20'000);
  EXPECT_TRUE(writes_.Concerns(Set("a", 1)));
  EXPECT_FALSE(writes_.Concerns(Get("a", 1)));
  EXPECT_FALSE(writes_.Concerns(coord::Heartbeat{}));
  coord::Event event = Set("a", 1);
  EXPECT_EQ(writes_.Delay(event), nullptr);
  // A session's requests take effect in their order; another's, and signs of life, go on.
  EXPECT_TRUE(writes_.Concerns(Get("a", 1)));
  EXPECT_FALSE(writes_.Concerns(Get("a", 2)));
  EXPECT_FALSE(
      writes_.Concerns(coord::ReportProgress{.caller = {.call = CallId(3), .session = {1, 1}}}));
  event = Get("a", 1);
  EXPECT_EQ(writes_.Delay(event), nullptr);
  EXPECT_GT(writes_.bytes(), 0u);
  EXPECT_THAT(taken_, IsEmpty());
  Sync();
  EXPECT_THAT(taken_, ElementsAre("set a", "other"));
  EXPECT_EQ(writes_.bytes(), 0u);
  EXPECT_FALSE(writes_.Concerns(Get("a", 1)));
}

TEST_F(WritesAwaitingDiskTest, Finding18_ArrivalsThatBringValuesWaitTooAndOthersDoNot) {
  const coord::ArriveAtBarrier bare{.caller = {.call = CallId(4), .session = {1, 1}}, .id = "b"};
  coord::ArriveAtBarrier brings = bare;
  brings.value = std::string(1000, 'v');
  EXPECT_FALSE(writes_.Concerns(brings));
  Write(20'000);
  EXPECT_TRUE(writes_.Concerns(brings)) << "the barrier's end has it in its record";
  EXPECT_FALSE(writes_.Concerns(bare));
}

TEST_F(WritesAwaitingDiskTest, Finding18_MoreThanTheQueueAgainIsRefusedByName) {
  Write(20'000);
  coord::Event first = Set("a", 1, 9000);
  EXPECT_EQ(writes_.Delay(first), nullptr);
  coord::Event second = Set("b", 2, 9000);
  const coord::ErrorPtr refused = writes_.Delay(second);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused->message, HasSubstr("journal_queue_bytes_max"));
  EXPECT_EQ(std::get<coord::SetKey>(second).key, "b") << "it is left to the caller";
  writes_.TakeUpAll();
  EXPECT_THAT(taken_, ElementsAre("set a"));
}

TEST_F(SlowDisk, WhatWaitsForTheDiskIsInTheAccount) {
  Write(100'000);
  EXPECT_GT(memory_.held(), 100'000u);
  EXPECT_GE(commits_.queued_bytes(), 100'000u);
  Sync();
  EXPECT_EQ(memory_.held(), 0u);
  EXPECT_EQ(commits_.queued_bytes(), 0u);
}

// A job with native callers, without sockets.
class JobAtSlowDisk : public SlowDisk {
 protected:
  class Answers final : public link::Responder::Sink {
   public:
    void Answer(link::LinkId, link::RequestKind, uint64_t id, link::Payload payload) override {
      failed[id] = payload.failed;
    }
    std::map<uint64_t, bool> failed;  // of what was answered, by the request's id
  };

  template <class M>
  void Ask(uint64_t id, const M& message) {
    constexpr auto kKind = native::KindOf<M>::kKind;
    native_.Take({.link = link::LinkId(1),
                  .id = id,
                  .kind = kKind,
                  .payload = native::Encode(message),
                  .who = "test",
                  .peer = "127.0.0.1:1"},
                 link::Responder(answers_, link::LinkId(1), kKind, id));
  }
  bool Answered(uint64_t id) const {
    const auto found = answers_->failed.find(id);
    return found != answers_->failed.end() && !found->second;
  }

  EventFeed feed_{7, 100};
  Counters counters_;
  const StoreHostOptions stores_{.none = true};
  NativeListener native_{
      [this](const native::OpenSession&, const link::Rights&) -> absl::StatusOr<NativeJob*> {
        return &job_;
      },
      [](link::LinkId, const absl::Status&) {}};
  JobHost job_{loop_,    {.job = "digits", .size = 1, .incarnation_seed = 1},
               commits_, native_,
               feed_,    counters_,
               memory_,  stores_};
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
};

TEST_F(JobAtSlowDisk, Finding18_SignsOfLifeDoNotWaitForTheDisk) {
  Ask(1, native::OpenSession{.session = native::ToBytes({.high = 7, .low = 7}), .job = "digits"});
  Sync();
  Ask(2, native::JoinJob{.incarnation = 5});
  Sync();
  ASSERT_TRUE(Answered(1) && Answered(2));
  Ask(3, native::SetKey{.key = "a", .value = {"1"}});
  Ask(4, native::ReportProgress{.step = 3});
  Ask(5, native::GetKey{.key = "a"});
  EXPECT_TRUE(Answered(4)) << "it tells of nothing that the disk has to have";
  EXPECT_FALSE(Answered(3));
  EXPECT_FALSE(Answered(5)) << "it tells of the write";
  Sync();
  EXPECT_TRUE(Answered(3) && Answered(5));
  job_.Stop();
}

TEST_F(JobAtSlowDisk, KeysAreInTheAccountUntilTheyAreDeleted) {
  Ask(1, native::OpenSession{.session = native::ToBytes({.high = 7, .low = 7}), .job = "digits"});
  Sync();
  Ask(2, native::SetKey{.key = "a", .value = {std::string(1000, 'x')}});
  Sync();
  EXPECT_TRUE(Answered(2));
  EXPECT_GT(memory_.held(), 1000u);
  const uint64_t with = memory_.held();
  Ask(3, native::DeleteKey{.key = "a"});
  Sync();
  EXPECT_LT(memory_.held(), with - 900);
  job_.Stop();
}

}  // namespace
}  // namespace lockstep::server
