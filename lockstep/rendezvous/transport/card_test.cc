#include "lockstep/rendezvous/transport/card.h"

#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/shared_secret.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

struct Change {
  std::function<void(Card&)> make;
  std::string why_not;  // part of it
};

TEST(Card, SaysWhoThisIs) {
  const Card card = MakeCard();
  EXPECT_EQ(card.pid, ::getpid());
  EXPECT_EQ(card.token.data.size(), 16);
  EXPECT_NE(card.token.data, MakeCard().token.data);
}

TEST(Card, OpensNoDoorInClearWhereItPromisesEncryption) {
  Card self = MakeCard();
  Card other = MakeCard();
  other.encrypts = true;
  EXPECT_EQ(KeyOf(other, self).status().code(), absl::StatusCode::kFailedPrecondition);
  other.secret = {std::string(runtime::kSecretBytes, 's')};
  EXPECT_TRUE(KeyOf(other, self)->encrypt);
  self.encrypts = true;
  other.encrypts = false;
  EXPECT_EQ(KeyOf(other, self).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Card, SaysWhyMemoryIsNotRead) {
  Card card = MakeCard();
  card.transports = {"cma", "tcp"};
  std::string why_not;
  EXPECT_TRUE(MayReadMemory(card, card, why_not)) << why_not;
  const std::vector<Change> changes = {
      {[](Card& other) { other.transports = {"tcp"}; }, "does not let its memory be read"},
      {[](Card& other) { other.boot_id = "another"; }, "another host"},
      {[](Card& other) { ++other.pid_namespace; }, "another process namespace"},
      {[](Card& other) { ++other.uid; }, "another user"}};
  for (const Change& change : changes) {
    Card other = card;
    change.make(other);
    why_not.clear();
    EXPECT_FALSE(MayReadMemory(card, other, why_not));
    EXPECT_THAT(why_not, HasSubstr(change.why_not));
  }
  // Of containers that share a network, or none.
  Card other = card;
  ++other.net_namespace;
  ++other.ipc_namespace;
  why_not.clear();
  EXPECT_TRUE(MayReadMemory(card, other, why_not)) << why_not;
}

TEST(Card, SaysWhyMemoryIsNotShared) {
  Card card = MakeCard();
  card.unix_address = "@somewhere";
  card.transports = {"shm", "tcp"};
  std::string why_not;
  EXPECT_TRUE(MayShareMemory(card, card, why_not)) << why_not;
  Card other = card;
  ++other.net_namespace;
  EXPECT_FALSE(MayShareMemory(card, other, why_not));
  EXPECT_THAT(why_not, HasSubstr("another network namespace"));
}

}  // namespace
}  // namespace lockstep::transport
