// Members whose connections must prove that they come from the job, and strangers that connect to
// them. In a program of its own: it has an OpenSSL, and the other tests show what is without.
#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/secrets.h"
#include "lockstep/rendezvous/transport/proof.h"
#include "lockstep/wire/native/codec.h"
#include "tests/native/rendezvous_liar.h"
#include "tests/native/rendezvous_testing.h"

namespace lockstep {
namespace {

using transport::BulkCode;
using wire::native::LinkPurpose;

class RendezvousWithProof : public RendezvousOverNetwork {
 protected:
  static void SetUpTestSuite() {
    runtime::SetSharedSecrets(tls::MakeSharedSecrets([] { return &tls::LinkedOpenSsl(); }));
  }

  // As member 1 says hello to fetch from member 0.
  PeerHello HelloOfMember() {
    return {.version_min = 1,
            .version_max = 1,
            .purpose = LinkPurpose::kBulk,
            .job = members_[0]->job(),
            .attempt = members_[0]->attempt(),
            .from = 1,
            .to = 0,
            .token = CardOf(0).token};
  }
  void ExchangeLongValues(char salt) {
    const std::string pattern = Pattern(3 << 20, salt);
    for (size_t from = 0; from < 2; ++from) {
      const auto to = static_cast<int32_t>(1 - from);
      ASSERT_TRUE(step(from).Send("long", to, Tensor::Copy(pattern)).ok());
    }
    for (size_t to = 0; to < 2; ++to) {
      const auto received = step(to).Recv("long", static_cast<int32_t>(1 - to), {.timeout = kSoon});
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_TRUE(received->tensor.text() == pattern);
    }
  }
};

TEST_F(RendezvousWithProof, MembersProveTheSecretOfEachOthersCards) {
  Begin(2);
  EXPECT_EQ(CardOf(0).secret.data.size(), runtime::kSecretBytes);
  EXPECT_NE(CardOf(0).secret.data, CardOf(1).secret.data);
  ExchangeOnce();
  ExchangeLongValues(1);
  EXPECT_EQ(TransportsOfFirstTwo(), (std::vector<std::string>{"tcp", "tcp"}));
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(rendezvous_[i]->Counters().refused_connections, 0);
  // Of each opening another.
  const std::string before = CardOf(0).secret.data;
  Open();
  EXPECT_NE(CardOf(0).secret.data, before);
}

TEST_F(RendezvousWithProof, ConnectionsThatAreCutAreProvenAnew) {
  Begin(2);
  for (size_t i = 0; i < 2; ++i) {
    Proxy(i, &Card::tcp_address,
          {.cut_after_min = 300, .cut_after_max = 20'000, .cuts_max = 6, .seed = 9});
    Proxy(i, &Card::bulk_address,
          {.cut_after_min = 100'000, .cut_after_max = 2'000'000, .cuts_max = 4, .seed = 9});
  }
  for (int i = 0; i < 50; ++i) ExchangeOnce();
  ExchangeLongValues(2);
  int cuts = 0;
  for (const auto& proxy : proxies_) cuts += proxy->cuts();
  EXPECT_GT(cuts, 2);
}

// Even one that has all of a member's hello: it was sent in clear, to a member.
TEST_F(RendezvousWithProof, AStrangerLearnsAndChangesNothing) {
  Begin(2);
  const std::string pattern = Pattern(1 << 20);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  for (const std::string& address : {CardOf(0).bulk_address, CardOf(0).tcp_address}) {
    Liar stranger(address, HelloOfMember());
    const std::string challenge = stranger.Hear(transport::kChallengeBytes);
    EXPECT_THAT(challenge, ::testing::StartsWith(std::string(transport::kProofMagic)));
    // Where the proof should be, more of the protocol.
    stranger.Say(transport::WithLength(wire::native::Encode(FetchChunk{.lease = 100, .bytes = 1})));
    stranger.Say(std::string(transport::kProofBytes, 'x'));
    EXPECT_EQ(stranger.Hear(1), "");
  }
  EXPECT_EQ(rendezvous_[0]->Counters().refused_connections, 2);

  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->tensor.text() == pattern);
  ExchangeOnce();
}

TEST_F(RendezvousWithProof, AMemberDoesNotBelieveWhoListensInAnothersPlace) {
  Begin(2);
  // Member 1 dials where member 0 said, and finds somebody who does not know the secret.
  ChangeCard(0, [](Card& card) { card.secret.data.assign(runtime::kSecretBytes, 'x'); });
  ASSERT_TRUE(step(1).Send("x", 0, Tensor::Copy("for member 0")).ok());
  const absl::Time end = absl::Now() + kSoon;
  while (rendezvous_[0]->Counters().refused_connections == 0) {
    ASSERT_LT(absl::Now(), end);
    std::this_thread::yield();
  }
  // Member 0 dials, since it wants something, and that is proven; so the value comes that way.
  const auto received = step(0).Recv("x", 1, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "for member 0");
}

TEST_F(RendezvousWithProof, EncryptedMembersExchangeShortAndLongValues) {
  encrypt_data_ = true;
  Begin(2);
  EXPECT_TRUE(CardOf(0).encrypts);
  for (size_t i = 0; i < 2; ++i) {
    Proxy(i, &Card::tcp_address,
          {.cut_after_min = 2000, .cut_after_max = 20'000, .cuts_max = 6, .seed = 5});
    Proxy(i, &Card::bulk_address,
          {.cut_after_min = 100'000, .cut_after_max = 2'000'000, .cuts_max = 4, .seed = 5});
  }
  for (int i = 0; i < 50; ++i) ExchangeOnce();
  ExchangeLongValues(3);
  EXPECT_EQ(TransportsOfFirstTwo(), (std::vector<std::string>{"tcp", "tcp"}));
}

TEST_F(RendezvousWithProof, AMemberThatEncryptsConnectsToNoneThatDoesNot) {
  encrypt_data_ = true;
  Begin(2);
  ChangeCard(0, [](Card& card) { card.encrypts = false; });
  ASSERT_TRUE(step(1).Send("x", 0, Tensor::Copy("for member 0")).ok());
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  EXPECT_EQ(ReasonOf(received.status()), "unreachable") << received.status();
  EXPECT_THAT(std::string(received.status().message()),
              ::testing::HasSubstr("LOCKSTEP_ENCRYPT_DATA"));
}

}  // namespace
}  // namespace lockstep
