// A caller whose certificate names a member is that member only, whatever its requests say.
#include "lockstep/coord/member_rights.h"

#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::coord {
namespace {

using ::testing::HasSubstr;

constexpr MemberIndex kOwn(1);
constexpr MemberIndex kOther(0);
constexpr SessionId kSession = {.high = 7, .low = 1};

class BoundCaller : public testing::Test {
 protected:
  // "ok", "waits" or the reason.
  std::string Ask(Event event) {
    error_ = nullptr;
    const Effects effects = coordinator_.Handle(Time(), std::move(event));
    for (const Reply& reply : effects.replies) {
      if (reply.call != last_) continue;
      error_ = reply.error;
      return reply.error ? std::string(ReasonName(reply.error->reason)) : "ok";
    }
    return "waits";
  }
  CallId Call() { return last_ = CallId(++calls_); }

  std::string Register(MemberIndex member, std::optional<MemberIndex> bound) {
    return Ask(RegisterMember{.call = Call(),
                              .member = member,
                              .incarnation = Incarnation(100 + member.value()),
                              .bound = bound});
  }
  // A stock client's, which says whose life asks.
  Caller Stock(uint64_t incarnation = 101) {
    return {.call = Call(),
            .service = coordinator_.service_incarnation(),
            .incarnation = Incarnation(incarnation),
            .standing = Standing::kTask,
            .bound = kOwn};
  }
  Caller InSession(std::optional<MemberIndex> bound) {
    return {.call = Call(),
            .session = kSession,
            .number = ++number_,
            .standing = Standing::kTask,
            .bound = bound};
  }
  void Open() { EXPECT_EQ(Ask(OpenSession{.call = Call(), .session = kSession}), "ok"); }
  std::string Join(std::optional<int32_t> index, std::optional<MemberIndex> bound,
                   const std::string& role = "") {
    return Ask(JoinJob{
        .caller = InSession(bound), .role = role, .index = index, .incarnation = Incarnation(9)});
  }

  Coordinator coordinator_{{.job = "digits", .size = 2}};
  uint64_t calls_ = 0;
  uint64_t number_ = 0;
  CallId last_;
  ErrorPtr error_;
};

TEST_F(BoundCaller, RegistersAsItself) {
  EXPECT_EQ(Register(kOther, kOwn), "not_permitted");
  EXPECT_EQ(error_->code, absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(error_->message, HasSubstr("certificate names member 1 of job 'digits'"));
  EXPECT_THAT(error_->message, HasSubstr("request names member 0"));
  // Beyond the job, too.
  EXPECT_EQ(Register(MemberIndex(7), kOwn), "not_permitted");
  EXPECT_EQ(Register(MemberIndex(7), MemberIndex(7)), "unknown_member");
  EXPECT_EQ(Register(kOwn, kOwn), "waits");
  EXPECT_EQ(Register(kOther, std::nullopt), "ok");
}

TEST_F(BoundCaller, AsksOfItselfOnly) {
  EXPECT_EQ(Register(kOwn, kOwn), "waits");
  EXPECT_EQ(Register(kOther, kOther), "ok");
  for (const MemberIndex member : {kOwn, kOther}) {
    const bool own = member == kOwn;
    const std::string said = own ? "ok" : "not_permitted";
    const std::string parked = own ? "waits" : "not_permitted";
    EXPECT_EQ(Ask(Heartbeat{.caller = Stock(), .member = member, .incarnation = Incarnation(101)}),
              said);
    EXPECT_EQ(Ask(GetMemberStates{.caller = Stock(), .members = {kOwn, member}}), said);
    EXPECT_EQ(Ask(PollForError{.caller = Stock(), .member = member}), parked);
    EXPECT_EQ(Ask(ArriveAtBarrier{.caller = Stock(), .member = member, .id = "b"}), parked);
    EXPECT_EQ(Ask(GetAliveMembers{.caller = Stock(), .member = member, .members = {kOwn, kOther}}),
              parked);
    EXPECT_EQ(Ask(CancelBarrier{.caller = Stock(), .member = member, .id = "b"}), said);
    // As another's life, of which it is the sign.
    const uint64_t life = own ? 101 : 100;
    EXPECT_EQ(Ask(SetKey{.caller = Stock(life), .key = "k", .overwrite = true}), said);
    EXPECT_EQ(Ask(WatchMembers{.caller = Stock(life)}), said);
  }
  EXPECT_EQ(Ask(LeaveJob{.caller = Stock(), .member = kOther}), "not_permitted");
  EXPECT_EQ(Ask(ResetMember{.caller = Stock(), .member = kOther}), "not_permitted");
  EXPECT_EQ(Ask(ReportError{.caller = Stock(), .member = kOther}), "not_permitted");
  // One that does not know the attempt hears no more.
  Caller stranger = Stock();
  stranger.service = ServiceIncarnation(1);
  EXPECT_EQ(Ask(PollForError{.caller = stranger, .member = kOther}), "not_permitted");
  EXPECT_EQ(Ask(ReportError{.caller = Stock(), .member = kOwn, .message = "x"}), "ok");
}

TEST_F(BoundCaller, JoinsAsItself) {
  Open();
  EXPECT_EQ(Join(0, kOwn), "not_permitted");
  EXPECT_THAT(error_->message, HasSubstr("request names member 0"));
  EXPECT_EQ(Join(std::nullopt, MemberIndex(2)), "not_permitted");
  EXPECT_THAT(error_->message, HasSubstr("names member 2 of job 'digits'"));
  EXPECT_EQ(Join(2, MemberIndex(2)), "unknown_member");
  // One that asks for any member is that one.
  EXPECT_EQ(Join(std::nullopt, kOwn), "waits");
  EXPECT_EQ(Register(kOther, std::nullopt), "ok");
  EXPECT_EQ(Ask(SetKey{.caller = InSession(kOwn), .key = "lockstep/rendezvous/card/1"}), "ok");
  EXPECT_EQ(Ask(SetKey{.caller = InSession(kOwn), .key = "lockstep/rendezvous/card/0"}),
            "not_permitted");
}

// Of whoever knows its id.
TEST_F(BoundCaller, DoesNotGoOnWithTheSessionOfAnother) {
  Open();
  EXPECT_EQ(Join(1, std::nullopt), "waits");
  EXPECT_EQ(Register(kOther, std::nullopt), "ok");
  EXPECT_EQ(Ask(SetKey{.caller = InSession(kOther), .key = "k"}), "not_permitted");
  EXPECT_EQ(Ask(ReportProgress{.caller = InSession(kOther), .step = 1}), "not_permitted");
  EXPECT_EQ(Ask(CloseSession{.caller = InSession(kOther)}), "not_permitted");
  EXPECT_EQ(Ask(SetKey{.caller = InSession(kOwn), .key = "k"}), "ok");
  EXPECT_EQ(Ask(ReportProgress{.caller = InSession(kOwn), .step = 1}), "ok");
}

// A client chooses its incarnation, and reads those of others.
class Impostor : public BoundCaller {
 protected:
  void SetUp() override {
    Open();
    EXPECT_EQ(Join(0, std::nullopt), "waits");
    EXPECT_EQ(Ask(OpenSession{.call = Call(), .session = kImpostor}), "ok");
  }
  Caller AsImpostor(Standing standing) {
    return {.call = Call(),
            .session = kImpostor,
            .number = ++impostors_number_,
            .standing = standing,
            .bound = std::nullopt};
  }
  std::string JoinAsSameLife(std::optional<int32_t> index, Standing standing) {
    return Ask(
        JoinJob{.caller = AsImpostor(standing), .index = index, .incarnation = Incarnation(9)});
  }
  std::string WriteCard(const Caller& caller) {
    return Ask(SetKey{.caller = caller, .key = "lockstep/rendezvous/card/0"});
  }

  static constexpr SessionId kImpostor = {.high = 7, .low = 2};
  uint64_t impostors_number_ = 0;
};

TEST_F(Impostor, DoesNotComeInAsTheLifeOfAnother) {
  for (const bool all_are_in : {false, true}) {
    if (all_are_in) {
      EXPECT_EQ(Register(kOwn, std::nullopt), "ok");
    }
    EXPECT_EQ(JoinAsSameLife(0, Standing::kTask), "member_exists");
    EXPECT_EQ(JoinAsSameLife(1, Standing::kTask), "member_exists");
    EXPECT_THAT(error_->message, HasSubstr("choose a random number"));
    EXPECT_EQ(JoinAsSameLife(std::nullopt, Standing::kTask), "member_exists");
    EXPECT_EQ(Ask(RegisterMember{.call = Call(), .member = kOther, .incarnation = Incarnation(9)}),
              "member_exists");
  }
  EXPECT_EQ(WriteCard(InSession(std::nullopt)), "ok");
  // Its own process may ask again.
  EXPECT_EQ(Join(0, std::nullopt), "ok");
}

TEST_F(Impostor, ASeatDecidesWhateverLifeAnotherSaysThatItIs) {
  EXPECT_EQ(JoinAsSameLife(1, Standing::kOperator), "ok");
  EXPECT_EQ(WriteCard(AsImpostor(Standing::kTask)), "not_permitted");
  EXPECT_EQ(WriteCard(InSession(std::nullopt)), "ok");
}

TEST(BoundCallerOfAJobWithRoles, IsCountedThroughAllOfThem) {
  Coordinator job({.job = "mnist", .size = 3, .roles = {{"worker", 2}, {"ps", 1}}});
  const auto join = [&](const std::string& role, std::optional<int32_t> index, uint64_t number) {
    const Effects effects = job.Handle(Time(), JoinJob{.caller = {.call = CallId(number + 1),
                                                                  .session = kSession,
                                                                  .number = number,
                                                                  .bound = MemberIndex(2)},
                                                       .role = role,
                                                       .index = index,
                                                       .incarnation = Incarnation(9)});
    if (effects.replies.empty()) return std::string("waits");
    return std::string(ReasonName(effects.replies.front().error->reason));
  };
  job.Handle(Time(), OpenSession{.call = CallId(1), .session = kSession});
  EXPECT_EQ(join("worker", 0, 1), "not_permitted");
  EXPECT_EQ(join("worker", std::nullopt, 2), "not_permitted");
  EXPECT_EQ(join("ps", 0, 3), "waits");
}

}  // namespace
}  // namespace lockstep::coord
