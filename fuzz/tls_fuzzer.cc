#include "fuzz/tls_fuzzer.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <utility>

#include "absl/time/time.h"
#include "fuzz/input_reader.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/platform/tls/openssl.h"

namespace lockstep::fuzz {
namespace {

using runtime::SecureLayer;
using Random = std::mt19937_64;

// The sequence that OpenSSL draws from now; null: none may.
Random* drawn_from = nullptr;

int Draw(unsigned char* bytes, int count) {
  LOCKSTEP_CHECK(drawn_from != nullptr);
  for (int i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>((*drawn_from)());
  return 1;
}

// By the interface that OpenSSL 3 calls old; the new one takes a provider of one's own.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void DrawFromFixedSequences() {
  static const RAND_METHOD kMethod = {.seed = nullptr,
                                      .bytes = &Draw,
                                      .cleanup = nullptr,
                                      .add = nullptr,
                                      .pseudorand = &Draw,
                                      .status = [] { return 1; }};
  LOCKSTEP_CHECK(::RAND_set_rand_method(&kMethod) == 1);
}
#pragma GCC diagnostic pop

// Of both ends, made once.
struct Contexts {
  std::shared_ptr<const tls::ServerContext> server;
  std::shared_ptr<const tls::ClientContext> client;
};

const Contexts& TheContexts() {
  static const Contexts* const contexts = [] {
    DrawFromFixedSequences();
    Random random(1);
    drawn_from = &random;
    const tls::Identity identity = *tls::MakeSelfSigned({.name = "fuzz",
                                                         .holds_for = {"host1"},
                                                         .from = absl::UnixEpoch(),
                                                         .until = absl::FromUnixSeconds(1 << 30)});
    auto made = std::make_unique<Contexts>(Contexts{
        .server = *tls::ServerContext::Make(tls::LinkedOpenSsl(), identity, {}),
        .client =
            *tls::ClientContext::Make(tls::LinkedOpenSsl(),
                                      {.fingerprint = *tls::FingerprintOf(identity.certificates),
                                       .authorities = {},
                                       .host = "host1"},
                                      {})});
    drawn_from = nullptr;
    return made.release();
  }();
  return *contexts;
}

enum class Side { kServer, kClient };

// An end, with what goes in and comes out of it counted.
class End {
 public:
  // Of the handshake and of what TLS says of errors.
  static constexpr size_t kOwnWordsMax = size_t{16} << 10;

  explicit End(Side side) : random_(side == Side::kServer ? 2 : 3) {
    const Contexts& contexts = TheContexts();
    const Drawing drawing(random_);
    layer_ = side == Side::kServer ? contexts.server->Accept()
                                   : tls::ClientContext::Call(contexts.client);
  }

  bool established() const { return layer_->established(); }

  void Receive(std::string_view bytes) {
    received_ += bytes.size();
    const Drawing drawing(random_);
    Note(layer_->Receive(bytes));
    ReadAll();
  }
  void Write(std::string_view clear) {
    const Drawing drawing(random_);
    const absl::Status status = layer_->Write(clear);
    Note(status);
    if (status.ok()) written_.append(clear);
  }
  std::string Output() {
    std::string output;
    layer_->TakeOutput(output);
    given_ += output.size();
    // Of what it says by itself, an answer for what came at most; each record has a head and a
    // seal.
    LOCKSTEP_CHECK(given_ <= kOwnWordsMax + 2 * received_ + 2 * written_.size());
    return output;
  }

  // Whether all that it read was written by that end.
  void CheckReadFrom(const End& other) const { LOCKSTEP_CHECK(other.written_.starts_with(read_)); }

 private:
  // Whose random numbers OpenSSL draws while it lives.
  class Drawing {
   public:
    explicit Drawing(Random& random) { drawn_from = &random; }
    ~Drawing() { drawn_from = nullptr; }
  };

  void ReadAll() {
    std::array<char, 1000> room;
    while (true) {
      const auto bytes = layer_->Read(absl::MakeSpan(room));
      Note(bytes.status());
      if (!bytes.ok() || *bytes == 0) return;
      read_.append(room.data(), *bytes);
    }
  }
  // What has failed stays so.
  void Note(const absl::Status& status) {
    LOCKSTEP_CHECK(!failed_ || !status.ok());
    failed_ = failed_ || !status.ok();
  }

  Random random_;
  std::unique_ptr<SecureLayer> layer_;
  size_t received_ = 0;
  size_t given_ = 0;
  std::string written_;  // clear
  std::string read_;     // clear
  bool failed_ = false;
};

// 0: all at once.
void InPieces(End& end, size_t size, std::string_view bytes) {
  if (size == 0) return end.Receive(bytes);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
    end.Receive(bytes.substr(0, size));
  }
}

// One way, with what is under way on it.
struct Way {
  End& from;
  End& to;
  std::string bytes;

  void Gather() { bytes += from.Output(); }
  size_t At(size_t number) const { return bytes.empty() ? 0 : number % bytes.size(); }
};

enum Act : size_t {
  kCarry,      // all
  kCarrySome,  // a number of bytes
  kFlip,       // a bit
  kDrop,       // a number of bytes
  kRepeat,     // all once more
  kInsert,     // bytes, before the others
  kSpeak,      // that end writes
  kActs,
};

// The acts of somebody on the way, for each of the two ways.
void Meddle(InputReader& reader, End& server, End& client) {
  constexpr size_t kUnderWayMax = size_t{1} << 20;
  std::array<Way, 2> ways = {Way{client, server, {}}, Way{server, client, {}}};
  while (!reader.done()) {
    const size_t act = reader.Byte();
    Way& way = ways[act & 1];
    way.Gather();
    switch ((act >> 1) % kActs) {
      case kCarry:
        way.to.Receive(std::exchange(way.bytes, {}));
        break;
      case kCarrySome: {
        const size_t count = std::min(reader.Number(), way.bytes.size());
        way.to.Receive(way.bytes.substr(0, count));
        way.bytes.erase(0, count);
        break;
      }
      case kFlip: {
        const size_t at = way.At(reader.Number());
        const size_t bit = reader.Byte() % 8;
        if (!way.bytes.empty()) way.bytes[at] ^= static_cast<char>(1 << bit);
        break;
      }
      case kDrop: {
        const size_t at = way.At(reader.Number());
        way.bytes.erase(at, reader.Byte());
        break;
      }
      case kRepeat:
        if (way.bytes.size() < kUnderWayMax) way.bytes += std::string(way.bytes);
        break;
      case kInsert: {
        const size_t at = way.At(reader.Number());
        way.bytes.insert(at, reader.Take(reader.Byte()));
        break;
      }
      case kSpeak:
        way.from.Write(std::string(reader.Number() % 20'000, 'x'));
        break;
      default:
        break;
    }
  }
}

constexpr char kForServer = 0;
constexpr char kForClient = 1;
constexpr char kActsFollow = 2;

// What each end has said when nobody meddles.
struct Said {
  std::string client;
  std::string server;
};

Said Converse() {
  Said said;
  End server(Side::kServer);
  End client(Side::kClient);
  client.Write("a hello");
  // There and back until the handshake is done, then an answer.
  for (int i = 0; i < 4; ++i) {
    const std::string there = client.Output();
    said.client += there;
    server.Receive(there);
    if (server.established() && i == 1) server.Write("a welcome");
    const std::string back = server.Output();
    said.server += back;
    client.Receive(back);
  }
  return said;
}

}  // namespace

TlsOutcome DriveTls(std::string_view bytes) {
  InputReader reader(bytes);
  const size_t kind = reader.Byte() % 3;
  const size_t piece = reader.Byte();
  if (kind == kActsFollow) {
    End server(Side::kServer);
    End client(Side::kClient);
    Meddle(reader, server, client);
    server.CheckReadFrom(client);
    client.CheckReadFrom(server);
    return {.server_established = server.established(), .client_established = client.established()};
  }
  // As in the conversation that was recorded.
  End end(kind == kForServer ? Side::kServer : Side::kClient);
  if (kind == kForClient) end.Write("a hello");
  end.Output();
  InPieces(end, piece, reader.Take(bytes.size()));
  end.Output();
  return {.server_established = kind == kForServer && end.established(),
          .client_established = kind == kForClient && end.established()};
}

std::string RealClient() { return std::string({kForServer, 0}) + Converse().client; }
std::string RealServer() { return std::string({kForClient, 7}) + Converse().server; }
std::string RealConversation() {
  std::string acts = {kActsFollow, 0};
  for (int i = 0; i < 4; ++i) acts += {char{kCarry << 1}, char{kCarry << 1 | 1}};
  for (const char way : {char{0}, char{1}}) {
    acts += {static_cast<char>(kSpeak << 1 | way), 1, 0, static_cast<char>(kCarry << 1 | way)};
  }
  return acts;
}

}  // namespace lockstep::fuzz
