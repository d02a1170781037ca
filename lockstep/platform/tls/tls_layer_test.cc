#include "lockstep/platform/tls/tls_layer.h"

#include <functional>
#include <random>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/platform/tls/pem.h"

namespace lockstep::tls {
namespace {

using runtime::SecureLayer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);

CertificateOptions For(std::vector<std::string> names, absl::Duration from = -kDay,
                       absl::Duration until = kDay) {
  const absl::Time now = absl::Now();
  return {.name = "test", .holds_for = std::move(names), .from = now + from, .until = now + until};
}

// A server's end and a client's, with nothing but memory between them.
class Ends {
 public:
  Ends(const Identity& server, Expected expected, const std::string& client_authorities = {},
       const Identity& own = {}) {
    auto accepts = ServerContext::Make(LinkedOpenSsl(), server, client_authorities);
    EXPECT_TRUE(accepts.ok()) << accepts.status();
    auto calls = ClientContext::Make(LinkedOpenSsl(), std::move(expected), own);
    EXPECT_TRUE(calls.ok()) << calls.status();
    server_ = (*accepts)->Accept();
    client_ = ClientContext::Call(*calls);
  }

  SecureLayer& server() { return *server_; }
  SecureLayer& client() { return *client_; }

  // Carries bytes to and fro until neither end has any; what an end said last about itself.
  void Converse() {
    while (Carry(*client_, *server_, server_status_) || Carry(*server_, *client_, client_status_)) {
    }
  }
  const absl::Status& server_status() const { return server_status_; }
  const absl::Status& client_status() const { return client_status_; }

  // All clear bytes of an end, which must not fail.
  static std::string ReadAll(SecureLayer& end) {
    std::string all;
    char room[1000];
    while (true) {
      const auto bytes = end.Read(absl::MakeSpan(room));
      EXPECT_TRUE(bytes.ok()) << bytes.status();
      if (!bytes.ok() || *bytes == 0) return all;
      all.append(room, *bytes);
    }
  }

 private:
  static bool Carry(SecureLayer& from, SecureLayer& to, absl::Status& status) {
    std::string bytes;
    from.TakeOutput(bytes);
    if (bytes.empty()) return false;
    if (absl::Status received = to.Receive(bytes); status.ok()) status = std::move(received);
    return true;
  }

  std::unique_ptr<SecureLayer> server_;
  std::unique_ptr<SecureLayer> client_;
  absl::Status server_status_;
  absl::Status client_status_;
};

Expected Pinned(const Identity& identity, std::string host = "host1") {
  return {.fingerprint = *FingerprintOf(identity.certificates), .host = std::move(host)};
}

TEST(TlsLayer, CarriesBytesBothWaysAndHidesThem) {
  const Identity identity = *MakeSelfSigned(For({"host1"}));
  Ends ends(identity, Pinned(identity));
  EXPECT_FALSE(ends.client().established());
  ASSERT_TRUE(ends.client().Write("early words").ok());  // kept until the handshake is done
  ends.Converse();
  ASSERT_TRUE(ends.client_status().ok()) << ends.client_status();
  EXPECT_TRUE(ends.client().established());
  EXPECT_TRUE(ends.server().established());
  EXPECT_EQ(Ends::ReadAll(ends.server()), "early words");

  ASSERT_TRUE(ends.server().Write("the answer, in clear").ok());
  std::string sent;
  ends.server().TakeOutput(sent);
  EXPECT_THAT(sent, Not(HasSubstr("answer")));
  ASSERT_TRUE(ends.client().Receive(sent).ok());
  EXPECT_EQ(Ends::ReadAll(ends.client()), "the answer, in clear");
}

TEST(TlsLayer, TakesBytesInWhateverPieces) {
  const Identity identity = *MakeSelfSigned(For({}));
  Ends ends(identity, Pinned(identity));
  ends.Converse();
  const std::string large(300'000, 'x');
  ASSERT_TRUE(ends.client().Write(large).ok());
  std::string sent;
  ends.client().TakeOutput(sent);
  std::mt19937 random(7);
  std::string read;
  for (size_t at = 0; at < sent.size();) {
    const size_t piece = std::min<size_t>(1 + random() % 5000, sent.size() - at);
    ASSERT_TRUE(ends.server().Receive(std::string_view(sent).substr(at, piece)).ok());
    at += piece;
    read += Ends::ReadAll(ends.server());
  }
  EXPECT_EQ(read, large);
}

TEST(TlsLayer, RefusesAnotherCertificateThanThePinnedOne) {
  const Identity identity = *MakeSelfSigned(For({"host1"}));
  const Identity other = *MakeSelfSigned(For({"host1"}));
  Ends ends(identity, Pinned(other));
  ASSERT_TRUE(ends.client().Write("a token").ok());
  ends.Converse();
  EXPECT_TRUE(absl::IsUnauthenticated(ends.client_status())) << ends.client_status();
  EXPECT_FALSE(ends.server_status().ok());  // it was told
  EXPECT_FALSE(ends.server().established());
}

TEST(TlsLayer, BelievesAPinnedCertificateWhateverItsNamesAndDates) {
  const Identity old = *MakeSelfSigned(For({"elsewhere"}, -2 * kDay, -kDay));
  Ends ends(old, Pinned(old));
  ends.Converse();
  EXPECT_TRUE(ends.client().established()) << ends.client_status();
}

TEST(TlsLayer, BelievesAPinnedAuthorityThatSignedTheCertificate) {
  const Identity authority = *MakeAuthority(For({}));
  const Identity server = *MakeSigned(For({"host1", "10.0.0.7"}), UsedBy::kServer, authority);
  for (const char* host : {"host1", "10.0.0.7"}) {
    Ends ends(server, Pinned(authority, host));
    ends.Converse();
    EXPECT_TRUE(ends.client().established()) << host << ": " << ends.client_status();
  }
}

struct Lie {
  const char* what;
  Identity server;
};

TEST(TlsLayer, RefusesWhatAPinnedAuthorityDidNotSignForThisServer) {
  const Identity authority = *MakeAuthority(For({}));
  const Identity stranger = *MakeAuthority(For({}));
  Identity forged = *MakeSigned(For({"host1"}), UsedBy::kServer, stranger);
  forged.certificates += authority.certificates;  // sent along, but has not signed it
  Identity own = *MakeSelfSigned(For({"host1"}));
  own.certificates += authority.certificates;
  const Lie lies[] = {
      {"another authority", *MakeSigned(For({"host1"}), UsedBy::kServer, stranger)},
      {"authority sent along", forged},
      {"self-signed, with the authority sent along", own},
      {"another name", *MakeSigned(For({"host2"}), UsedBy::kServer, authority)},
      {"no name", *MakeSigned(For({}), UsedBy::kServer, authority)},
      {"expired", *MakeSigned(For({"host1"}, -2 * kDay, -kDay), UsedBy::kServer, authority)},
      {"not yet valid", *MakeSigned(For({"host1"}, kDay, 2 * kDay), UsedBy::kServer, authority)},
      {"a client's", *MakeSigned(For({"host1"}), UsedBy::kClient, authority)},
  };
  for (const Lie& lie : lies) {
    Ends pinned(lie.server, Pinned(authority));
    pinned.Converse();
    EXPECT_FALSE(pinned.client().established()) << lie.what;
    EXPECT_TRUE(absl::IsUnauthenticated(pinned.client_status()))
        << lie.what << ": " << pinned.client_status();

    Ends believed(lie.server, {.authorities = authority.certificates, .host = "host1"});
    believed.Converse();
    EXPECT_FALSE(believed.client().established()) << lie.what;
  }
}

TEST(TlsLayer, BelievesAnAuthorityByFile) {
  const Identity authority = *MakeAuthority(For({}));
  const Identity server = *MakeSigned(For({"host1"}), UsedBy::kServer, authority);
  Ends ends(server, {.authorities = authority.certificates, .host = "host1"});
  ends.Converse();
  EXPECT_TRUE(ends.client().established()) << ends.client_status();
}

TEST(TlsLayer, ServerMayAskClientsForCertificates) {
  const Identity authority = *MakeAuthority(For({}));
  const Identity server = *MakeSigned(For({"host1"}), UsedBy::kServer, authority);
  const Identity client = *MakeSigned(For({"spiffe://c/job/j"}), UsedBy::kClient, authority);
  {
    Ends ends(server, Pinned(authority), authority.certificates, client);
    ends.Converse();
    EXPECT_TRUE(ends.server().established()) << ends.server_status();
  }
  {
    Ends ends(server, Pinned(authority), authority.certificates);
    ends.Converse();
    EXPECT_FALSE(ends.server().established());
    EXPECT_TRUE(absl::IsUnauthenticated(ends.server_status())) << ends.server_status();
  }
  {
    const Identity stranger = *MakeAuthority(For({}));
    Ends ends(server, Pinned(authority), authority.certificates,
              *MakeSigned(For({}), UsedBy::kClient, stranger));
    ends.Converse();
    EXPECT_FALSE(ends.server().established());
  }
}

TEST(TlsLayer, EndsWhenBytesAreChangedOnTheWay) {
  const Identity identity = *MakeSelfSigned(For({}));
  Ends ends(identity, Pinned(identity));
  ends.Converse();
  ASSERT_TRUE(ends.client().Write("set lr 0.1").ok());
  std::string sent;
  ends.client().TakeOutput(sent);
  sent[sent.size() / 2] ^= 1;
  char room[100];
  const bool received = ends.server().Receive(sent).ok();
  EXPECT_FALSE(received && ends.server().Read(absl::MakeSpan(room)).ok());
  // And stays ended.
  EXPECT_FALSE(ends.server().Receive("more").ok());
  EXPECT_FALSE(ends.server().Write("more").ok());
}

TEST(TlsLayer, SurvivesWhateverIsSentInstead) {
  const Identity identity = *MakeSelfSigned(For({}));
  const auto context = *ServerContext::Make(LinkedOpenSsl(), identity, {});
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto server = context->Accept();
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Often what looks like the beginning of a handshake.
    if (bytes.size() > 5 && round % 2 == 0) bytes.replace(0, 3, "\x16\x03\x01");
    absl::Status status;
    for (int i = 0; i < 50 && status.ok(); ++i) status = server->Receive(bytes);
    EXPECT_FALSE(server->established());
    std::string output;
    server->TakeOutput(output);
    EXPECT_LT(output.size(), 1000u);
  }
}

// A client of another program, by the same OpenSSL: `set_up` gives it its ways.
class ForeignClient {
 public:
  explicit ForeignClient(const std::function<void(SSL_CTX*)>& set_up)
      : context_(::SSL_CTX_new(::TLS_client_method())) {
    set_up(context_);
    ssl_ = ::SSL_new(context_);
    in_ = ::BIO_new(::BIO_s_mem());
    out_ = ::BIO_new(::BIO_s_mem());
    ::SSL_set_bio(ssl_, in_, out_);
    ::SSL_set_connect_state(ssl_);
  }
  ~ForeignClient() {
    ::SSL_free(ssl_);
    ::SSL_CTX_free(context_);
  }
  ForeignClient(const ForeignClient&) = delete;
  ForeignClient& operator=(const ForeignClient&) = delete;

  SSL* ssl() { return ssl_; }
  std::string Output() {
    std::string bytes(static_cast<size_t>(::BIO_ctrl_pending(out_)), '\0');
    if (!bytes.empty()) ::BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  void Input(const std::string& bytes) {
    if (!bytes.empty()) ::BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }
  // Whether the handshake with that server comes to its end, for both.
  bool Shake(SecureLayer& server) {
    absl::Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) {
      ::SSL_do_handshake(ssl_);
      status = server.Receive(Output());
      std::string answer;
      server.TakeOutput(answer);
      Input(answer);
    }
    return server.established();
  }

 private:
  SSL_CTX* const context_;
  SSL* ssl_;
  BIO* in_;
  BIO* out_;
};

void OfferOurProtocol(SSL_CTX* context) {
  ::SSL_CTX_set_alpn_protos(context, kLinkProtocol.name, kLinkProtocol.bytes);
}

// Clients of HTTP: what they say they speak, if anything, and their certificate.
std::function<void(SSL_CTX*)> SpeaksHttp(const std::string& protocols, const Identity& own = {}) {
  return [protocols, own](SSL_CTX* context) {
    ::SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(protocols.data()),
                              static_cast<unsigned int>(protocols.size()));
    if (own.key.empty()) return;
    const auto certificates = ReadCertificates(LinkedOpenSsl(), own.certificates);
    const auto key = ReadKey(LinkedOpenSsl(), own.key);
    ASSERT_EQ(::SSL_CTX_use_certificate(context, certificates->front().get()), 1);
    ASSERT_EQ(::SSL_CTX_use_PrivateKey(context, key->get()), 1);
  };
}

class TlsServerEnd : public testing::Test {
 protected:
  const std::shared_ptr<const ServerContext> context_ =
      *ServerContext::Make(LinkedOpenSsl(), *MakeSelfSigned(For({})), {});
};

TEST_F(TlsServerEnd, TakesOurProtocolOnly) {
  const auto ours = context_->Accept();
  EXPECT_TRUE(ForeignClient(&OfferOurProtocol).Shake(*ours));
  const auto none = context_->Accept();
  EXPECT_FALSE(ForeignClient([](SSL_CTX*) {}).Shake(*none));
  const auto another = context_->Accept();
  EXPECT_FALSE(ForeignClient([](SSL_CTX* context) {
                 constexpr unsigned char kHttp[] = "\x02h2";
                 ::SSL_CTX_set_alpn_protos(context, kHttp, sizeof(kHttp) - 1);
               }).Shake(*another));
}

TEST(TlsServerEndOfHttp, TakesClientsThatNameNoOtherProtocol) {
  const auto context =
      *ServerContext::Make(LinkedOpenSsl(), *MakeSelfSigned(For({})), {}, Serves::kHttp);
  for (const char* protocols : {"", "\x08http/1.1", "\x02h2\x08http/1.1"}) {
    const auto server = context->Accept();
    EXPECT_TRUE(ForeignClient(SpeaksHttp(protocols)).Shake(*server)) << protocols;
    EXPECT_FALSE(server->certified());
  }
  for (const char* protocols : {"\x02h2", "\x0alockstep/1"}) {
    const auto server = context->Accept();
    EXPECT_FALSE(ForeignClient(SpeaksHttp(protocols)).Shake(*server)) << protocols;
  }
}

TEST(TlsServerEndOfHttp, TakesClientsWithACertificateOfItsAuthorityAndWithout) {
  const Identity authority = *MakeAuthority(For({}));
  const auto context = *ServerContext::Make(LinkedOpenSsl(), *MakeSelfSigned(For({})),
                                            authority.certificates, Serves::kHttp);
  const auto known = context->Accept();
  EXPECT_TRUE(ForeignClient(SpeaksHttp("", *MakeSigned(For({}), UsedBy::kClient, authority)))
                  .Shake(*known));
  EXPECT_TRUE(known->certified());
  const auto unknown = context->Accept();
  EXPECT_TRUE(ForeignClient(SpeaksHttp("")).Shake(*unknown));
  EXPECT_FALSE(unknown->certified());
  for (const Identity& wrong :
       {*MakeSigned(For({}), UsedBy::kClient, *MakeAuthority(For({}))), *MakeSelfSigned(For({})),
        *MakeSigned(For({}), UsedBy::kServer, authority),
        *MakeSigned(For({}, -2 * kDay, -kDay), UsedBy::kClient, authority)}) {
    const auto server = context->Accept();
    EXPECT_FALSE(ForeignClient(SpeaksHttp("", wrong)).Shake(*server));
    EXPECT_FALSE(server->certified());
  }
}

TEST(TlsServerEndOfHttp, KnowsTheUrisOfItsClientsCertificate) {
  const Identity authority = *MakeAuthority(For({"spiffe://a/authority"}));
  const auto context =
      *ServerContext::Make(LinkedOpenSsl(), *MakeSelfSigned(For({"spiffe://a/server"})),
                           authority.certificates, Serves::kHttp);
  const auto uris_of = [&](std::vector<std::string> names) {
    const auto server = context->Accept();
    EXPECT_THAT(server->peer_uris(), IsEmpty());
    const Identity own = *MakeSigned(For(std::move(names)), UsedBy::kClient, authority);
    EXPECT_TRUE(ForeignClient(SpeaksHttp("", own)).Shake(*server));
    return server->peer_uris();
  };
  EXPECT_THAT(uris_of({}), IsEmpty());
  EXPECT_THAT(uris_of({"host.a", "10.0.0.1"}), IsEmpty());
  EXPECT_THAT(uris_of({"host.a", "spiffe://a/job/b/member/0", "10.0.0.1"}),
              ElementsAre("spiffe://a/job/b/member/0"));
  // More than anybody needs.
  EXPECT_THAT(uris_of({"spiffe://a/1", "spiffe://a/2", "spiffe://a/3"}),
              ElementsAre("spiffe://a/1", "spiffe://a/2"));
  const auto unknown = context->Accept();
  EXPECT_TRUE(ForeignClient(SpeaksHttp("")).Shake(*unknown));
  EXPECT_THAT(unknown->peer_uris(), IsEmpty());
}

TEST_F(TlsServerEnd, TakesNoGroupThatCostsItMuch) {
  const auto server = context_->Accept();
  EXPECT_FALSE(ForeignClient([](SSL_CTX* context) {
                 OfferOurProtocol(context);
                 ASSERT_EQ(SSL_CTX_set1_groups_list(context, "ffdhe8192"), 1);
               }).Shake(*server));
}

TEST_F(TlsServerEnd, TakesTls13Only) {
  const auto server = context_->Accept();
  EXPECT_FALSE(ForeignClient([](SSL_CTX* context) {
                 OfferOurProtocol(context);
                 SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
               }).Shake(*server));
}

TEST_F(TlsServerEnd, AnswersWhileAPeerChangesItsKeys) {
  const auto server = context_->Accept();
  ForeignClient client(&OfferOurProtocol);
  ASSERT_TRUE(client.Shake(*server));
  ASSERT_EQ(::SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(::SSL_write(client.ssl(), "hello", 5), 5);
  const std::string sent = client.Output();
  char room[100];
  // In two pieces, between which the server speaks.
  ASSERT_TRUE(server->Receive(std::string_view(sent).substr(0, 9)).ok());
  EXPECT_EQ(*server->Read(absl::MakeSpan(room)), 0u);
  EXPECT_TRUE(server->Write("meanwhile").ok());
  ASSERT_TRUE(server->Receive(std::string_view(sent).substr(9)).ok());
  EXPECT_EQ(*server->Read(absl::MakeSpan(room)), 5u);
}

TEST(ServerContext, SaysWhatIsWrongWithItsFiles) {
  const Identity one = *MakeSelfSigned(For({}));
  const Identity other = *MakeSelfSigned(For({}));
  const auto error = [](const Identity& identity) {
    return std::string(ServerContext::Make(LinkedOpenSsl(), identity, {}).status().message());
  };
  EXPECT_THAT(error({.certificates = one.certificates, .key = other.key}),
              HasSubstr("does not match the certificate"));
  EXPECT_THAT(error({.certificates = "nonsense", .key = one.key}), HasSubstr("no certificate"));
  EXPECT_THAT(error({.certificates = one.certificates, .key = "secret nonsense"}),
              AllOf(HasSubstr("no private key"), Not(HasSubstr("secret"))));
}

TEST(LoadedOpenSsl, FindsTheOneThatThisProgramHas) {
  const auto loaded = LoadedOpenSsl();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->SSL_read, LinkedOpenSsl().SSL_read);
  EXPECT_EQ((*loaded)->X509_digest, LinkedOpenSsl().X509_digest);
}

}  // namespace
}  // namespace lockstep::tls
