// The data service within the account of memory and behind a slow disk, without sockets.
#include "lockstep/server/data_host.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/journal/memory_journal.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/data_status_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::server {
namespace {

using journal::MemoryJournal;
using ::testing::HasSubstr;
namespace native = wire::native;

constexpr size_t kLimit = size_t{8} << 20;
constexpr size_t kQueueBytesMax = 100'000;

// Whether a job's word counts for consumers without one.
constexpr bool kApart = true;
constexpr bool kNotApart = false;

class DataHostTest : public ::testing::Test {
 protected:
  class Answers final : public link::Responder::Sink {
   public:
    void Answer(link::LinkId, link::RequestKind, uint64_t id, link::Payload payload) override {
      of.emplace(id, std::move(payload));
    }
    std::map<uint64_t, link::Payload> of;  // by the request's id
  };

  DataHostTest() {
    auto journal = std::make_unique<MemoryJournal>(disk_, MemoryJournal::Syncs::kWhenTold);
    journal_ = journal.get();
    EXPECT_TRUE(commits_
                    .Keep(
                        std::move(journal), [](const absl::Status&) {},
                        [] { return [] { return std::optional<std::string>(); }; })
                    .ok());
    host_.Resume();
    Sync();
  }
  ~DataHostTest() override { host_.Stop(); }

  // What is durable is told, and what is posted runs.
  void Sync() {
    journal_->Sync();
    loop_.io().restart();
    loop_.io().poll();
  }
  template <class M>
  uint64_t Ask(const M& message, link::LinkId link = link::LinkId(1), std::string job = "") {
    constexpr auto kKind = native::KindOf<M>::kKind;
    const uint64_t id = ++last_;
    host_.Take({.link = link,
                .id = id,
                .kind = kKind,
                .payload = native::Encode(message),
                .who = "test",
                .peer = "127.0.0.1:1",
                .rights = {.role = native::Role::kTask, .job = std::move(job)}},
               link::Responder(answers_, link, kKind, id));
    return id;
  }
  uint64_t Register(const std::string& name, size_t bytes) {
    const plan::Definition definition = {.nodes = {{.id = 1,
                                                    .op = "range",
                                                    .attrs = {{"stop", ++stop_}},
                                                    .where = std::string(bytes, 'w')}}};
    return Ask(native::RegisterDataset{.name = name,
                                       .definition = {native::EncodeDefinition(definition)}});
  }
  // Of an iteration in exact order with one place, over the link.
  uint64_t Open(const std::string& consumer, uint64_t life, int64_t pid, link::LinkId link,
                std::string job = "") {
    const native::IterationSpec spec = {
        .name = "i", .dataset = 1, .mode = native::ReadingMode::kExact, .consumers = 1};
    const uint64_t id = Ask(native::OpenIteration{.spec = spec,
                                                  .consumer = consumer,
                                                  .life = life,
                                                  .index = 0,
                                                  .host = "elsewhere",
                                                  .pid = pid},
                            link, std::move(job));
    Sync();
    return id;
  }
  bool Answered(uint64_t id) const { return answers_->of.contains(id); }
  bool Succeeded(uint64_t id) const { return Answered(id) && !answers_->of.at(id).failed; }
  absl::Status Refusal(uint64_t id) const {
    if (!Answered(id) || Succeeded(id)) return absl::OkStatus();
    const auto error = native::Decode<native::ErrorReply>(answers_->of.at(id).bytes);
    return error.ok() ? native::ToStatus(*error) : error.status();
  }

  runtime::Loop loop_;
  const std::shared_ptr<journal::MemoryDisk> disk_ = std::make_shared<journal::MemoryDisk>();
  runtime::MemoryAccount memory_{kLimit};
  CommitQueue commits_{loop_, &memory_};
  MemoryJournal* journal_ = nullptr;
  DataHost host_{loop_,
                 {},
                 /*keeps=*/true,
                 commits_,
                 kQueueBytesMax,
                 memory_,
                 [](dispatch::Severity, const std::string&) {}};
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  uint64_t last_ = 0;
  int64_t stop_ = 0;
};

TEST_F(DataHostTest, Finding08_WhatIsRegisteredIsInTheAccountAndRefusedByName) {
  const uint64_t first = Register("a", 40'000);
  Sync();
  ASSERT_TRUE(Succeeded(first));
  EXPECT_GT(memory_.held(), 40'000u);
  runtime::MemoryShare others(&memory_, "others", "keys");
  others.Set(kLimit / 100 * 95);
  const absl::Status refused = Refusal(Register("b", 40'000));
  EXPECT_EQ(native::ReasonOf(refused), "memory_max");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("memory_max"));
  EXPECT_EQ(native::ReasonOf(Refusal(Ask(native::OpenIteration{
                .spec = {.name = "new", .dataset = 1}, .consumer = "c", .life = 5}))),
            "memory_max");
  // What holds nothing more is answered.
  const uint64_t known = Ask(native::GetDataset{.name = "a"});
  Sync();
  EXPECT_TRUE(Succeeded(known));
  others.Set(kLimit);
  EXPECT_EQ(native::ReasonOf(Refusal(Ask(native::WorkerPoll{.worker = 9}))), "memory_max");
}

TEST_F(DataHostTest, Finding18_RegistrationsWaitForADiskThatIsBehind) {
  const uint64_t first = Register("a", 60'000);
  const uint64_t second = Register("b", 60'000);
  EXPECT_GE(commits_.queued_bytes(), kQueueBytesMax);
  const size_t queued = commits_.queued_bytes();
  const uint64_t waits = Register("c", 60'000);
  EXPECT_EQ(commits_.queued_bytes(), queued) << "the journal gets no more of it";
  const absl::Status refused = Refusal(Register("d", 60'000));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("journal_queue_bytes_max"));
  EXPECT_FALSE(Answered(first) || Answered(second) || Answered(waits));
  Sync();
  EXPECT_TRUE(Succeeded(first) && Succeeded(second));
  Sync();
  EXPECT_TRUE(Succeeded(waits));
}

TEST_F(DataHostTest, Finding18_WhoLeavesWaitsForNoDisk) {
  Register("a", 60'000);
  Register("b", 60'000);
  const uint64_t cancelled = Register("c", 30'000);
  const uint64_t left = Register("d", 30'000);
  const uint64_t held = memory_.held();
  host_.Cancelled(link::LinkId(1), cancelled);
  EXPECT_EQ(native::ReasonOf(Refusal(cancelled)), "cancelled");
  EXPECT_LT(memory_.held(), held);
  host_.Ended(link::LinkId(1));
  EXPECT_TRUE(Answered(left));
  Sync();
  Sync();
  EXPECT_EQ(host_.View().datasets.size(), 2u);
}

TEST_F(DataHostTest, Finding07_WhoAskWithinAShortTimeGetOneViewAndNoneOlderThanTheirRequest) {
  const uint64_t first = Ask(native::DataStatus{});
  ASSERT_TRUE(Succeeded(first));
  // Nothing has happened since.
  EXPECT_EQ(answers_->of.at(Ask(native::DataStatus{})).shared, answers_->of.at(first).shared);
  Register("a", 100);
  Sync();
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) last = Ask(native::DataStatus{});
  loop_.io().restart();
  while (!Answered(last)) loop_.io().run_one();
  const link::Payload& told = answers_->of.at(last);
  EXPECT_EQ(told.shared, answers_->of.at(last - 999).shared);
  const auto status = native::Decode<native::DataStatusReply>(*told.shared);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->datasets.size(), 1u);
}

// The server had such ends from launchers only: without one, the lease had to end first.
TEST_F(DataHostTest, Deliver08_WhomItsJobHasLostIsReplacedAtOnce) {
  Register("a", 100);
  Sync();
  ASSERT_TRUE(Succeeded(Open("a", 1, 4711, link::LinkId(2))));
  EXPECT_EQ(native::ReasonOf(Refusal(Open("b", 2, 4712, link::LinkId(3)))), "consumer_index_taken");
  host_.Ended(link::LinkId(2));
  host_.MemberLost("digits", kNotApart, "elsewhere", 1);  // another one
  EXPECT_EQ(native::ReasonOf(Refusal(Open("b", 2, 4712, link::LinkId(3)))), "consumer_index_taken");
  host_.MemberLost("digits", kNotApart, "elsewhere", 4711);
  EXPECT_TRUE(Succeeded(Open("b", 2, 4712, link::LinkId(3))));
  // The job may be quicker than the link.
  host_.MemberLost("digits", kNotApart, "elsewhere", 4712);
  EXPECT_EQ(native::ReasonOf(Refusal(Open("c", 3, 4713, link::LinkId(4)))), "consumer_index_taken");
  host_.Ended(link::LinkId(3));
  EXPECT_TRUE(Succeeded(Open("c", 3, 4713, link::LinkId(4))));
}

TEST_F(DataHostTest, Deliver08_WhoIsHeardAfterItsJobLostItKeepsItsPlace) {
  Register("a", 100);
  Sync();
  const uint64_t opened = Open("a", 1, 4711, link::LinkId(2));
  ASSERT_TRUE(Succeeded(opened));
  const auto reply = native::Decode<native::OpenIterationReply>(answers_->of.at(opened).bytes);
  ASSERT_TRUE(reply.ok());
  host_.MemberLost("digits", kNotApart, "elsewhere", 4711);
  Ask(
      native::ConsumerPoll{
          .iteration = reply->iteration, .consumer = reply->consumer, .life = 1, .number = 1},
      link::LinkId(2));
  host_.Ended(link::LinkId(2));
  EXPECT_EQ(native::ReasonOf(Refusal(Open("b", 2, 4712, link::LinkId(3)))), "consumer_index_taken");
}

// Host and PID are what processes say of themselves.
TEST_F(DataHostTest, OnlyTheConsumersOwnJobSaysThatItsProcessHasEnded) {
  const link::Rights own = {.role = native::Role::kLaunch, .job = "digits"};
  const link::Rights others = {.role = native::Role::kLaunch, .job = "other"};
  Register("a", 100);
  Sync();
  ASSERT_TRUE(Succeeded(Open("a", 1, 4711, link::LinkId(2), "digits")));
  const auto is_free = [&](uint64_t life) {
    return Succeeded(Open("b", life, 4712, link::LinkId(3), "digits"));
  };
  // Nor does it count once the link has ended.
  host_.ProcessEnded("other", others, "elsewhere", 4711);
  host_.Ended(link::LinkId(2));
  EXPECT_FALSE(is_free(2));
  host_.ProcessEnded("other", others, "elsewhere", 4711);
  host_.MemberLost("other", kNotApart, "elsewhere", 4711);
  EXPECT_FALSE(is_free(2));
  host_.ProcessEnded("digits", own, "elsewhere", 4711);
  EXPECT_TRUE(is_free(2));
}

TEST_F(DataHostTest, OfAConsumerWithoutATokenOnlyWhoSpeaksForAllJobsSaysSo) {
  Register("a", 100);
  Sync();
  ASSERT_TRUE(Succeeded(Open("a", 1, 4711, link::LinkId(2))));
  host_.Ended(link::LinkId(2));
  host_.ProcessEnded("digits", {.role = native::Role::kLaunch, .job = "digits"}, "elsewhere", 4711);
  EXPECT_FALSE(Succeeded(Open("b", 2, 4712, link::LinkId(3))));
  host_.ProcessEnded("digits", {}, "elsewhere", 4711);
  EXPECT_TRUE(Succeeded(Open("b", 2, 4712, link::LinkId(3))));
}

TEST_F(DataHostTest, WhereJobsAreApartALostMemberIsNoConsumerWithoutAJob) {
  Register("a", 100);
  Sync();
  ASSERT_TRUE(Succeeded(Open("a", 1, 4711, link::LinkId(2))));
  host_.Ended(link::LinkId(2));
  host_.MemberLost("digits", kApart, "elsewhere", 4711);
  EXPECT_FALSE(Succeeded(Open("b", 2, 4712, link::LinkId(3))));
  host_.MemberLost("digits", kNotApart, "elsewhere", 4711);
  EXPECT_TRUE(Succeeded(Open("b", 2, 4712, link::LinkId(3))));
}

}  // namespace
}  // namespace lockstep::server
