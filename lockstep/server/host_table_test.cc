#include "lockstep/server/host_table.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using hosts::HostContact;
using hosts::HostId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::native::JoinHosts;
using wire::native::JoinHostsReply;
using wire::native::ReasonOf;

constexpr hosts::Terms kTerms{.interval = absl::Milliseconds(100), .timeout = absl::Seconds(1)};

// An agent, as far as its pulse goes; it has a thread no more than the test has.
class FakeAgent {
 public:
  FakeAgent(uint64_t id, hosts::OnPartition policy = hosts::OnPartition::kStop)
      : socket_(*hosts::DatagramSocket::Open(asio::ip::make_address("127.0.0.1"), 0)),
        contact_(HostId(id), kTerms, policy) {}

  void Take(const JoinHostsReply& reply) {
    secret_ = {.key = reply.key, .bytes = reply.secret.data};
    at_[hosts::kServer] = {asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(reply.port)};
    HostContact::Table table{.version = reply.version, .peers = {}};
    for (const auto& peer : reply.peers) {
      table.peers.emplace_back(peer.host);
      if (const auto at = hosts::ToEndpoint(peer.address)) at_[HostId(peer.host)] = *at;
    }
    contact_.SetTable(table);
  }
  // Returns whether to ask for the table.
  bool Step() {
    const Time now = hosts::BootNow();
    const HostContact::Round round = contact_.Tick(now);
    for (const hosts::Ping& ping : round.pings) socket_.Send(Seal(secret_, ping), at_[ping.to]);
    while (const auto received = socket_.Receive()) {
      const auto packet = Unseal(secret_, received->first);
      if (!packet) continue;
      if (const auto* ack = std::get_if<hosts::Ack>(&*packet)) {
        contact_.Handle(now, *ack);
      } else if (const auto answer = contact_.Handle(now, std::get<hosts::Ping>(*packet))) {
        socket_.Send(Seal(secret_, *answer), received->second);
      }
    }
    return round.ask;
  }
  const HostContact& contact() const { return contact_; }
  void Send(const std::string& datagram) { socket_.Send(datagram, at_[hosts::kServer]); }
  const hosts::Secret& secret() const { return secret_; }

 private:
  hosts::DatagramSocket socket_;
  HostContact contact_;
  hosts::Secret secret_;
  std::map<HostId, hosts::DatagramSocket::Endpoint> at_;
};

class HostTableTest : public ::testing::Test {
 protected:
  HostTableTest() {
    HostTable::Callbacks callbacks;
    callbacks.lost = [this](const HostTable::Loss& loss) {
      news_.push_back(absl::StrCat("lost ", loss.job, " ", loss.name, " node ", loss.node.value(),
                                   " session ", loss.agent.low));
    };
    callbacks.stopped = [this](const HostTable::Loss& loss) {
      news_.push_back(absl::StrCat("stopped ", loss.job, " ", loss.name));
    };
    table_ =
        std::make_unique<HostTable>(loop_, memory_, "127.0.0.1:0", kTerms, std::move(callbacks));
  }

  static JoinHosts Asking(uint64_t id) {
    return {.host = id, .name = absl::StrCat("h", id), .version = "1", .node = 100 + id};
  }
  absl::StatusOr<JoinHostsReply> Join(uint64_t id, const std::string& job = "digits") {
    return table_->Join(job, SessionId{1, id}, link::LinkId(id), Asking(id));
  }
  void Add(uint64_t id) {
    agents_[id] = std::make_unique<FakeAgent>(id);
    const auto reply = Join(id);
    ASSERT_TRUE(reply.ok()) << reply.status();
    agents_[id]->Take(*reply);
  }
  std::optional<absl::Duration> GraceOf(uint64_t node) const {
    return table_->GraceOf("digits", node_group::NodeId(node));
  }
  void Step() {
    for (auto& [id, agent] : agents_) {
      if (!agent->Step()) continue;
      if (const auto reply = Join(id); reply.ok()) agent->Take(*reply);
    }
  }
  // Runs the loop and the agents until `done`, for a long time at most. Once only.
  void RunUntil(const std::function<bool()>& done) {
    const Time until = runtime::MonotonicNow() + absl::Seconds(30);
    runtime::Timer timer(loop_);
    const std::function<void()> turn = [&] {
      Step();
      if (done() || runtime::MonotonicNow() > until) return loop_.Stop();
      timer.Arm(runtime::MonotonicNow() + absl::Milliseconds(20), turn);
    };
    loop_.Post(turn);
    loop_.Run();
    EXPECT_TRUE(done());
  }
  bool AllKnowEachOther(size_t counted) const {
    for (const auto& [id, agent] : agents_) {
      if (agent->contact().Look(hosts::BootNow()).counted != counted) return false;
    }
    return true;
  }

  runtime::Loop loop_;
  runtime::MemoryAccount memory_{uint64_t{8} << 20};
  std::vector<std::string> news_;
  std::map<uint64_t, std::unique_ptr<FakeAgent>> agents_;
  std::unique_ptr<HostTable> table_;
};

TEST_F(HostTableTest, AHostThatFallsSilentIsLostAndThenStopped) {
  for (const uint64_t id : {1, 2, 3}) Add(id);
  RunUntil([this] {
    if (agents_.contains(3) && AllKnowEachOther(4)) agents_.erase(3);
    return news_.size() == 2;
  });
  EXPECT_THAT(news_, ElementsAre("lost digits h3 node 103 session 3", "stopped digits h3"));
  EXPECT_FALSE(agents_[1]->contact().stops());
  const auto again = Join(3);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(again.status()), "host_lost");
}

TEST_F(HostTableTest, AHostWhoseAgentClosesItsLinkHasLeft) {
  for (const uint64_t id : {1, 2, 3}) Add(id);
  EXPECT_FALSE(GraceOf(103)) << "it was not heard yet";
  RunUntil([this] { return AllKnowEachOther(4) && GraceOf(103); });
  EXPECT_EQ(GraceOf(103), absl::Seconds(30));
  EXPECT_FALSE(table_->GraceOf("other", node_group::NodeId(103)));
  EXPECT_FALSE(GraceOf(0));
  table_->Ended(link::LinkId(3), /*by_peer=*/true);
  EXPECT_FALSE(GraceOf(103));
  table_->Ended(link::LinkId(2), /*by_peer=*/false);  // perhaps it is cut off
  EXPECT_TRUE(GraceOf(102));
}

TEST_F(HostTableTest, AnAgentThatComesOverAnotherLinkIsTheSameHost) {
  JoinHosts asked = Asking(1);
  asked.waits = true;
  for (const uint64_t link : {1, 7}) {
    ASSERT_TRUE(table_->Join("digits", SessionId{1, 1}, link::LinkId(link), asked).ok());
  }
  table_->Ended(link::LinkId(1), /*by_peer=*/true);
  EXPECT_EQ(GraceOf(101), absl::Minutes(10)) << "its processes go on";
  asked.node = 555;
  ASSERT_TRUE(table_->Join("digits", SessionId{1, 1}, link::LinkId(7), asked).ok());
  EXPECT_FALSE(GraceOf(101)) << "it belongs to another launcher now";
  EXPECT_TRUE(GraceOf(555));
  table_->Ended(link::LinkId(7), /*by_peer=*/true);
  EXPECT_FALSE(GraceOf(555));
}

TEST_F(HostTableTest, NobodySpeaksForAHostOfAnother) {
  Add(1);
  for (const auto& refused :
       {table_->Join("digits", SessionId{1, 2}, link::LinkId(2), Asking(1)),
        table_->Join("other", SessionId{1, 1}, link::LinkId(2), Asking(1)),
        table_->Join("digits", SessionId{1, 1}, link::LinkId(1), Asking(2)),
        table_->Join("digits", SessionId{1, 3}, link::LinkId(3), Asking(0))}) {
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
  }
}

TEST_F(HostTableTest, HostsAreInTheAccountOfMemory) {
  runtime::MemoryShare others(&memory_, "others", "keys");
  others.Set(memory_.limit());
  EXPECT_EQ(Join(1).status().code(), absl::StatusCode::kResourceExhausted);
  others.Set(0);
  const size_t before = memory_.held();
  Add(1);
  EXPECT_GT(memory_.held(), before);
  table_->JobDeleted("digits");
  EXPECT_EQ(memory_.held(), before);
}

// What is not proven, or proven by another job's secret, changes nothing.
TEST_F(HostTableTest, DatagramsOfStrangersAreIgnored) {
  for (const uint64_t id : {1, 2}) Add(id);
  const auto other = table_->Join("other", SessionId{1, 9}, link::LinkId(9), Asking(9));
  ASSERT_TRUE(other.ok());
  const hosts::Secret others{.key = other->key, .bytes = other->secret.data};
  uint64_t number = 1'000'000;
  Time until = Time::Infinite();
  RunUntil([&] {
    // Pings of host 2 that would make the server think that it is elsewhere, and newer.
    const hosts::Ping ping{.from = HostId(2),
                           .to = hosts::kServer,
                           .number = ++number,
                           .heard_ago = absl::ZeroDuration()};
    agents_[1]->Send(Seal(others, ping));
    agents_[1]->Send(Seal({.key = agents_[1]->secret().key, .bytes = "guess"}, ping));
    agents_[1]->Send("not a datagram of ours, but long enough to be one");
    if (until.is_infinite() && AllKnowEachOther(3)) {
      until = hosts::BootNow() + 2 * kTerms.timeout;
    }
    return hosts::BootNow() > until;
  });
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_EQ(agents_[2]->contact().Look(hosts::BootNow()).heard, 3);
}

TEST_F(HostTableTest, AJobThatIsDeletedIsWatchedNoMore) {
  for (const uint64_t id : {1, 2, 3}) Add(id);
  Time until = Time::Infinite();
  RunUntil([&] {
    if (until.is_infinite() && AllKnowEachOther(4)) {
      table_->JobDeleted("digits");
      agents_.clear();
      until = hosts::BootNow() + 2 * kTerms.timeout;
    }
    return hosts::BootNow() > until;
  });
  EXPECT_THAT(news_, IsEmpty());
}

}  // namespace
}  // namespace lockstep::server
