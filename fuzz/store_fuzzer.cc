#include "fuzz/store_fuzzer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/store.h"
#include "lockstep/stock/tcpstore/wire/command_reader.h"
#include "lockstep/stock/tcpstore/wire/outbox.h"

namespace lockstep::fuzz {
namespace {

using tcpstore::ConnectionId;
using wire::tcpstore::CommandReader;
using wire::tcpstore::Outbox;

// Small, so that the limits are met.
constexpr tcpstore::StoreOptions kOptions = {.key_bytes_max = 64,
                                             .value_bytes_max = 256,
                                             .keys_per_request_max = 16,
                                             .request_bytes_max = 2048,
                                             .answer_bytes_max = 2048,
                                             .keys_max = 32,
                                             .store_bytes_max = 4096,
                                             .waits_per_connection_max = 4,
                                             .keeps = true};
const ConnectionId kUnderTest(1);
const ConnectionId kOther(2);

// What a connection with these bytes was told, and whether it was sent away.
struct Outcome {
  std::string answers;
  bool refused = false;
  size_t keys = 0;
  size_t bytes = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// A store with the same keys and queues: what both say in records of themselves is the same.
void CheckMadeAgain(const tcpstore::Store& store, const std::vector<tcpstore::Record>& records) {
  tcpstore::Store made(kOptions);
  for (const tcpstore::Record& record : records) LOCKSTEP_CHECK(made.Apply(record).ok());
  LOCKSTEP_CHECK(made.size() == store.size() && made.bytes() == store.bytes());
  tcpstore::Store again(kOptions);
  for (const tcpstore::Record& record : store.Snapshot()) LOCKSTEP_CHECK(again.Apply(record).ok());
  LOCKSTEP_CHECK(again.size() == store.size() && again.bytes() == store.bytes());
}

Outcome Converse(std::string_view bytes, size_t piece) {
  tcpstore::Store store(kOptions);
  store.Connected(kUnderTest, "peer:1");
  store.Connected(kOther, "peer:2");
  CommandReader reader(kOptions);
  Outbox outbox;
  Outcome outcome;
  tcpstore::Effects effects;
  std::vector<tcpstore::Record> records;
  tcpstore::Command command;
  // Somebody else waits for what is written here, and writes what may be waited for.
  store.Handle(Time(), kOther, tcpstore::Wait{{"/a", "/b"}}, effects);
  store.Handle(Time(), kOther, tcpstore::Barrier{"/n", 3}, effects);
  records = effects.records;
  while (!outcome.refused) {
    const auto next = reader.Next(command);
    if (!next.ok()) outcome.refused = true;
    if (!next.ok()) break;
    if (*next) {
      effects.Clear();
      store.Handle(Time(), kUnderTest, command, effects);
      while (store.lists()) store.ListSome(effects);
      for (const tcpstore::Reply& reply : effects.replies) {
        if (reply.to == kUnderTest) outbox.Push(reply.answer);
      }
      outcome.refused = !effects.refusals.empty();
      records.insert(records.end(), effects.records.begin(), effects.records.end());
      LOCKSTEP_CHECK(store.size() <= kOptions.keys_max);
      LOCKSTEP_CHECK(store.bytes() <= kOptions.store_bytes_max);
      // As an operator may at any time. A barrier is told from a key by its size.
      for (const tcpstore::AwaitedView& awaited : store.View().awaited) {
        LOCKSTEP_CHECK(awaited.waiters > 0 && awaited.barrier_size >= 0);
      }
      continue;
    }
    if (bytes.empty()) break;
    const absl::Span<char> room = reader.Prepare();
    LOCKSTEP_CHECK(!room.empty());
    const size_t now = std::min({piece, room.size(), bytes.size()});
    std::memcpy(room.data(), bytes.data(), now);
    reader.Commit(now);
    bytes.remove_prefix(now);
  }
  std::vector<absl::string_view> pieces;
  while (!outbox.empty()) {
    outbox.Peek(3, pieces);
    LOCKSTEP_CHECK(!pieces.empty());
    outcome.answers.append(pieces.front().data(), pieces.front().size());
    outbox.Sent(pieces.front().size());
  }
  outcome.keys = store.size();
  outcome.bytes = store.bytes();
  LOCKSTEP_CHECK(store.View().waits <= 2 + kOptions.waits_per_connection_max);
  CheckMadeAgain(store, records);
  store.Left(kUnderTest, effects);
  store.Left(kOther, effects);
  LOCKSTEP_CHECK(store.View().waits == 0 && store.connections() == 0);
  store.Clear(effects);
  LOCKSTEP_CHECK(store.bytes() == 0);
  return outcome;
}

}  // namespace

void ReadStoreBytes(std::string_view bytes) {
  if (bytes.empty()) return;
  const size_t piece = static_cast<unsigned char>(bytes.front()) + 1;
  bytes.remove_prefix(1);
  // How the bytes are cut changes nothing.
  LOCKSTEP_CHECK(Converse(bytes, piece) == Converse(bytes, bytes.size() + 1));
}

}  // namespace lockstep::fuzz
