#include "fuzz/bulk_fuzzer.h"

#include <algorithm>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::fuzz {
namespace {

template <class Message>
void ReadAs(const std::string& bytes) {
  const auto message = wire::native::Decode<Message>(bytes);
  if (!message.ok()) return;
  const std::string encoded = wire::native::Encode(*message);
  const auto again = wire::native::Decode<Message>(encoded);
  LOCKSTEP_CHECK(again.ok() && *again == *message);
}

// What the end that was dialed reads, and the welcome of that end.
void ReadMessages(std::string buffer) {
  while (true) {
    const size_t before = buffer.size();
    const auto message = transport::TakeMessage(buffer);
    if (!message.ok() || !message->has_value()) return;
    LOCKSTEP_CHECK((*message)->size() <= transport::kBulkMessageBytesMax);
    LOCKSTEP_CHECK(transport::WithLength(**message).size() == before - buffer.size());
    ReadAs<wire::native::PeerHello>(**message);
    ReadAs<wire::native::PeerWelcome>(**message);
    ReadAs<wire::native::FetchChunk>(**message);
  }
}

void ReadAnswer(std::string_view bytes) {
  transport::BulkHeaderBytes header = {};
  if (bytes.size() < header.size()) return;
  std::copy_n(bytes.begin(), header.size(), header.begin());
  const auto decoded = transport::DecodeBulkHeader(header);
  if (decoded.ok()) LOCKSTEP_CHECK(transport::EncodeBulkHeader(*decoded) == header);
}

}  // namespace

void ReadBulkLink(std::string_view bytes) {
  ReadMessages(std::string(bytes));
  ReadAnswer(bytes);
}

}  // namespace lockstep::fuzz
