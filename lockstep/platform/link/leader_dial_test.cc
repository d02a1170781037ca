#include "lockstep/platform/link/leader_dial.h"

#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Seen;
using testing::TestServer;
using wire::native::ReasonOf;

// One of several servers, which answers requests with its address.
class Standby {
 public:
  explicit Standby(Leadership leadership = {.leads = false}) : leadership_(leadership) {}

  const std::string& address() const { return server_.address(); }
  void Set(Leadership leadership) {
    const MutexLock lock(mutex_);
    leadership_ = std::move(leadership);
  }
  void Kill() { server_.Kill(); }

  Seen<bool> asked;  // before the server, which adds to it

 private:
  Mutex mutex_;
  Leadership leadership_ ABSL_GUARDED_BY(mutex_);
  TestServer server_{ServerEvents{
      .request = [this](const Request&, Responder&& responder) { responder.Answer(address()); },
      .leadership =
          [this] {
            asked.Add(true);
            const MutexLock lock(mutex_);
            return leadership_;
          }}};
};

// A host that accepts connections and says nothing.
class SilentServer {
 public:
  SilentServer() : acceptor_(*runtime::Listen(io_, {.host = "127.0.0.1", .port = 0})) {}
  std::string address() const { return runtime::ToString(acceptor_.local_endpoint()); }

 private:
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
};

std::string FreeAddress() { return SilentServer().address(); }

std::string ListOf(std::vector<std::string> addresses) { return absl::StrJoin(addresses, ","); }

// The address of the server that answers at one of `addresses`; or the error.
std::string AnswererOf(const std::string& addresses) {
  const auto client = Client::Connect(addresses, kLong, {});
  if (!client.ok()) return client.status().ToString();
  const auto answer = (*client)->CallRaw(1, "", kLong);
  if (!answer.ok()) return answer.status().ToString();
  EXPECT_EQ((*client)->server(), *answer);
  return *answer;
}

// One attempt on a loop of the test's own.
class Attempt {
 public:
  explicit Attempt(const std::shared_ptr<Servers>& servers, absl::Duration timeout = kLong) {
    link_ = ClientLink::Dial(
        io_, servers, timeout, "test", {},
        {.ready = [this](const wire::native::Welcome& welcome) { welcome_ = welcome; },
         .closed = [this](const absl::Status& why) { why_ = why; }});
    while (!welcome_ && !why_ && io_.run_one_for(std::chrono::seconds(30)) > 0) {
    }
  }
  ~Attempt() { link_->Abandon(); }
  // The server that was found; or the error.
  std::string server() const {
    return welcome_ ? runtime::ToString(link_->server())
                    : why_.value_or(absl::OkStatus()).ToString();
  }
  absl::Status why() const { return why_.value_or(absl::OkStatus()); }

 private:
  asio::io_context io_{1};
  std::shared_ptr<ClientLink> link_;
  std::optional<wire::native::Welcome> welcome_;
  std::optional<absl::Status> why_;
};

TEST(LeaderDial, FindsTheLeaderAmongThree) {
  Standby first;
  Standby leader({.leads = true, .epoch = 7});
  const std::string list = ListOf({FreeAddress(), first.address(), leader.address()});
  EXPECT_EQ(AnswererOf(list), leader.address());
  EXPECT_EQ(first.asked.Now().size(), 1u);
}

TEST(LeaderDial, FollowsTheHintBeforeTheOrder) {
  Standby leader({.leads = true, .epoch = 1});
  Standby second;
  Standby first({.leads = false, .leader = leader.address()});
  EXPECT_EQ(AnswererOf(ListOf({first.address(), second.address(), leader.address()})),
            leader.address());
  EXPECT_TRUE(second.asked.Now().empty());
}

TEST(LeaderDial, IsNotSentToAServerThatNobodyConfigured) {
  Standby trap({.leads = true, .epoch = 99});
  Standby leader({.leads = true, .epoch = 1});
  Standby first({.leads = false, .leader = trap.address()});
  EXPECT_EQ(AnswererOf(ListOf({first.address(), leader.address()})), leader.address());
  EXPECT_TRUE(trap.asked.Now().empty());
}

TEST(LeaderDial, RefusesTheLeaderOfAnEarlierEpoch) {
  Standby old({.leads = true, .epoch = 4});
  Standby leader({.leads = true, .epoch = 5});
  const auto servers = *Servers::Read(ListOf({old.address(), leader.address()}));
  servers->Led(servers->addresses().back(), 5);
  leader.Set({.leads = false});
  const Attempt early(servers);
  EXPECT_EQ(ReasonOf(early.why()), "not_leader") << early.why();
  EXPECT_THAT(std::string(early.why().message()),
              AllOf(HasSubstr("in epoch 4, but another has led in epoch 5"),
                    HasSubstr(leader.address() + " refused the link")));
  leader.Set({.leads = true, .epoch = 6});
  EXPECT_EQ(Attempt(servers).server(), leader.address());
  EXPECT_EQ(servers->epoch(), 6u);
}

TEST(LeaderDial, CallsTheLastLeaderFirst) {
  Standby first;
  Standby leader({.leads = true, .epoch = 1});
  const auto servers = *Servers::Read(ListOf({first.address(), leader.address()}));
  EXPECT_EQ(runtime::ToString(servers->leader()), first.address());
  EXPECT_EQ(Attempt(servers).server(), leader.address());
  EXPECT_EQ(runtime::ToString(servers->leader()), leader.address());
  EXPECT_EQ(Attempt(servers).server(), leader.address());
  EXPECT_EQ(first.asked.Now().size(), 1u);
}

TEST(LeaderDial, ASilentServerDelaysTheOthersByTheStaggerOnly) {
  const SilentServer silent;
  Standby leader({.leads = true, .epoch = 1});
  const Time began = runtime::MonotonicNow();
  EXPECT_EQ(AnswererOf(ListOf({silent.address(), leader.address()})), leader.address());
  const absl::Duration took = runtime::MonotonicNow() - began;
  EXPECT_GE(took, kServerStagger);
  EXPECT_LT(took, LinkOptions().hello_timeout);
}

TEST(LeaderDial, SaysWhatIsWrongWithEachServer) {
  const std::string gone = FreeAddress();
  Standby standby;
  const absl::Status why = Client::Connect(ListOf({gone, standby.address()}), kLong, {}).status();
  EXPECT_TRUE(absl::IsUnavailable(why)) << why;
  EXPECT_EQ(ReasonOf(why), "not_leader");
  EXPECT_THAT(std::string(why.message()),
              AllOf(HasSubstr("cannot connect to " + gone + ": Connection refused"),
                    HasSubstr("the server at " + standby.address() + " refused the link: ")));
}

TEST(LeaderDial, SaysWhichServersHaveNotAnsweredInTime) {
  const SilentServer silent;
  Standby standby;
  const absl::Status why =
      Client::Connect(ListOf({silent.address(), standby.address()}), absl::Seconds(1), {}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(why)) << why;
  EXPECT_EQ(ReasonOf(why), "not_leader");
  EXPECT_THAT(std::string(why.message()),
              AllOf(HasSubstr("within 1s"), HasSubstr(silent.address() + " has not answered"),
                    HasSubstr(standby.address() + " refused the link")));
}

TEST(LeaderDial, OneServerThatDoesNotLeadSaysWhoDoes) {
  Standby standby({.leads = false, .leader = "other:7070"});
  const absl::Status why = Client::Connect(standby.address(), kLong, {}).status();
  EXPECT_TRUE(absl::IsUnavailable(why)) << why;
  EXPECT_EQ(ReasonOf(why), "not_leader");
  EXPECT_EQ(why.message(), absl::StrCat("the server at ", standby.address(),
                                        " refused the link: this server stands by and does not "
                                        "lead: the one at other:7070 does"));
}

TEST(LeaderDial, ReadsTheListAgainForEachSearch) {
  std::string path = ::testing::TempDir() + "lockstep-leader-XXXXXX";
  ::close(::mkstemp(path.data()));
  Standby first({.leads = true, .epoch = 1});
  Standby second({.leads = true, .epoch = 2});
  std::ofstream(path) << first.address() << "\n";
  const auto servers = Servers::Read("file://" + path);
  ASSERT_TRUE(servers.ok()) << servers.status();
  EXPECT_EQ(Attempt(*servers).server(), first.address());
  first.Kill();
  std::ofstream(path) << "# moved\n" << second.address() << "\n";
  EXPECT_EQ(Attempt(*servers).server(), second.address());
  std::ofstream(path) << "nonsense\n";
  const Attempt wrong(*servers);
  EXPECT_TRUE(absl::IsUnavailable(wrong.why())) << wrong.why();
  EXPECT_THAT(std::string(wrong.why().message()), HasSubstr(path + ": address 'nonsense'"));
  ::unlink(path.c_str());
}

TEST(LeaderDial, AnAbandonedSearchCallsNobodyBack) {
  const SilentServer silent;
  const SilentServer other;
  asio::io_context io(1);
  const auto link = ClientLink::Dial(
      io, *Servers::Read(ListOf({silent.address(), other.address()})), kLong, "test", {},
      {.ready = [](const auto&) { ADD_FAILURE(); }, .closed = [](const auto&) { ADD_FAILURE(); }});
  io.run_for(std::chrono::milliseconds(1));
  link->Abandon();
  io.run_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(link->closed());
}

}  // namespace
}  // namespace lockstep::link
