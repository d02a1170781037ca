#include "lockstep/hosts/packets.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::hosts {
namespace {

constexpr uint32_t kMagic = 0x3248534c;  // "LSH2"
constexpr uint8_t kPing = 1;
constexpr uint8_t kAck = 2;
constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

// Numbers are little endian, whatever the machine.
class Writer {
 public:
  template <class Number>
  void Put(Number value) {
    static_assert(std::is_unsigned_v<Number>);
    for (size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
    }
  }
  void Put(HostId id) { Put(id.value()); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// What cannot be read is zero, and `ok` false from then on.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <class Number>
  Number Get() {
    if (left_.size() < sizeof(Number)) ok_ = false;
    if (!ok_) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) {
      value |= uint64_t{static_cast<uint8_t>(left_[i])} << (8 * i);
    }
    left_.remove_prefix(sizeof(Number));
    return static_cast<Number>(value);
  }
  HostId GetId() { return HostId(Get<uint64_t>()); }
  // Of a list of at most `max`.
  size_t GetCount(size_t max) {
    const size_t count = Get<uint8_t>();
    if (count > max) ok_ = false;
    return ok_ ? count : 0;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

uint32_t ToMilliseconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return kNever;
  return static_cast<uint32_t>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 0, kNever - 1));
}

absl::Duration ToDuration(uint32_t milliseconds) {
  return milliseconds == kNever ? absl::InfiniteDuration() : absl::Milliseconds(milliseconds);
}

void Write(const Ping& ping, Writer& to) {
  to.Put(ToMilliseconds(ping.heard_ago));
  to.Put(ping.version);
  to.Put(ping.counted);
  to.Put(static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Microseconds(ping.round_trip), 0,
                                                   std::numeric_limits<uint32_t>::max())));
  to.Put(ping.clock_us);
  LOCKSTEP_CHECK(ping.lost.size() <= kVerdictsMax);
  to.Put(static_cast<uint8_t>(ping.lost.size()));
  for (const LastAnswer& each : ping.lost) {
    to.Put(each.host);
    to.Put(ToMilliseconds(each.ago));
  }
}

void Write(const Ack& ack, Writer& to) {
  to.Put(static_cast<uint8_t>(ack.lost));
  to.Put(ack.version);
  LOCKSTEP_CHECK(ack.gone.size() <= kVerdictsMax);
  to.Put(static_cast<uint8_t>(ack.gone.size()));
  for (const HostId each : ack.gone) to.Put(each);
}

void ReadRest(Reader& from, Ping& ping) {
  ping.heard_ago = ToDuration(from.Get<uint32_t>());
  ping.version = from.Get<uint64_t>();
  ping.counted = from.Get<uint32_t>();
  ping.round_trip = absl::Microseconds(from.Get<uint32_t>());
  ping.clock_us = from.Get<uint64_t>();
  const size_t lost = from.GetCount(kVerdictsMax);
  for (size_t i = 0; i < lost && from.ok(); ++i) {
    const HostId host = from.GetId();
    ping.lost.push_back({host, ToDuration(from.Get<uint32_t>())});
  }
}

void ReadRest(Reader& from, Ack& ack) {
  ack.lost = from.Get<uint8_t>() != 0;
  ack.version = from.Get<uint64_t>();
  const size_t gone = from.GetCount(kVerdictsMax);
  for (size_t i = 0; i < gone && from.ok(); ++i) ack.gone.push_back(from.GetId());
}

template <class Kind>
std::optional<Packet> Read(Reader& from) {
  Kind packet;
  packet.from = from.GetId();
  packet.to = from.GetId();
  packet.number = from.Get<uint64_t>();
  ReadRest(from, packet);
  // Nobody sends to himself.
  if (!from.AtEnd() || packet.from == packet.to) return std::nullopt;
  return packet;
}

}  // namespace

std::string Encode(const Packet& packet) {
  Writer to;
  to.Put(kMagic);
  to.Put(std::holds_alternative<Ping>(packet) ? kPing : kAck);
  std::visit(
      [&to](const auto& is) {
        to.Put(is.from);
        to.Put(is.to);
        to.Put(is.number);
        Write(is, to);
      },
      packet);
  std::string bytes = to.Take();
  LOCKSTEP_DCHECK(bytes.size() <= kDatagramBytesMax - kKeyBytes - kProofBytes);
  return bytes;
}

std::optional<Packet> Decode(std::string_view bytes) {
  Reader from(bytes);
  if (from.Get<uint32_t>() != kMagic) return std::nullopt;
  switch (from.Get<uint8_t>()) {
    case kPing:
      return Read<Ping>(from);
    case kAck:
      return Read<Ack>(from);
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::hosts
