#include "lockstep/link/frame.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/link/crc32c.h"

namespace lockstep::link {
namespace {

constexpr std::string_view kMagic = "LSTP";
constexpr uint8_t kFrameVersion = 1;

// Where each field of the header lies.
constexpr size_t kVersionAt = 4;
constexpr size_t kTypeAt = 5;
constexpr size_t kFlagsAt = 6;
constexpr size_t kKindAt = 8;
constexpr size_t kPayloadAt = 12;
constexpr size_t kIdAt = 16;
constexpr size_t kTotalAt = 24;
constexpr size_t kCrcAt = 28;

template <class T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class T>
T Get(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(
        value | static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i)));
  }
  return value;
}

// Before there is a whole header, and for bytes that never were one.
bool StartsLikeAFrame(std::string_view bytes) {
  return bytes.substr(0, kMagic.size()) == kMagic.substr(0, bytes.size());
}

}  // namespace

struct MessageReader::Header {
  uint8_t version;
  FrameType type;
  uint16_t flags;
  uint32_t kind;
  uint32_t payload;
  uint64_t id;
  uint32_t total;
  uint32_t crc;

  static Header Parse(std::string_view bytes) {
    return {.version = Get<uint8_t>(bytes, kVersionAt),
            .type = static_cast<FrameType>(Get<uint8_t>(bytes, kTypeAt)),
            .flags = Get<uint16_t>(bytes, kFlagsAt),
            .kind = Get<uint32_t>(bytes, kKindAt),
            .payload = Get<uint32_t>(bytes, kPayloadAt),
            .id = Get<uint64_t>(bytes, kIdAt),
            .total = Get<uint32_t>(bytes, kTotalAt),
            .crc = Get<uint32_t>(bytes, kCrcAt)};
  }
  bool more_follows() const { return (flags & kMoreFollows) != 0; }
};

bool IsKnown(FrameType type) { return type >= FrameType::kHello && type <= FrameType::kCancel; }

size_t AppendFrame(const Message& message, size_t offset, std::string& out) {
  LOCKSTEP_CHECK(offset <= message.payload.size());
  LOCKSTEP_CHECK(message.payload.size() <= UINT32_MAX);
  const std::string_view payload =
      std::string_view(message.payload).substr(offset, kFramePayloadMax);
  const bool more = offset + payload.size() < message.payload.size();
  const size_t start = out.size();
  out.append(kMagic);
  Put<uint8_t>(out, kFrameVersion);
  Put<uint8_t>(out, static_cast<uint8_t>(message.type));
  Put<uint16_t>(out, static_cast<uint16_t>((more ? kMoreFollows : 0) |
                                           (message.must_understand ? kMustUnderstand : 0)));
  Put<uint32_t>(out, message.kind);
  Put<uint32_t>(out, static_cast<uint32_t>(payload.size()));
  Put<uint64_t>(out, message.id);
  Put<uint32_t>(out, static_cast<uint32_t>(message.payload.size()));
  Put<uint32_t>(out, Crc32c(Crc32c(0, std::string_view(out).substr(start, kCrcAt)), payload));
  out.append(payload);
  return payload.size();
}

std::string EncodeMessage(const Message& message) {
  std::string out;
  size_t offset = 0;
  do {
    offset += AppendFrame(message, offset, out);
  } while (offset < message.payload.size());
  return out;
}

void MessageReader::Append(std::string_view bytes) {
  if (!failure_.ok()) return;
  // Moving the rest to the front costs less than a frame for each 64 KiB that is taken.
  if (consumed_ >= kFrameBytesMax || consumed_ == buffer_.size()) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(bytes);
}

absl::StatusOr<std::optional<Message>> MessageReader::Next() {
  if (!failure_.ok()) return failure_;
  while (true) {
    const std::string_view bytes = std::string_view(buffer_).substr(consumed_);
    if (!StartsLikeAFrame(bytes)) {
      return Fail(absl::InvalidArgumentError(absl::StrFormat(
          "not a frame of the link: begins with \"%s\"; is this a client of another protocol?",
          absl::CHexEscape(std::string(bytes.substr(0, 8))))));
    }
    if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
    const Header header = Header::Parse(bytes);
    // Before the payload is waited for: a wrong length must not make us wait for it.
    if (absl::Status checked = Check(header); !checked.ok()) return Fail(std::move(checked));
    if (bytes.size() - kFrameHeaderBytes < header.payload) return std::nullopt;
    const std::string_view payload = bytes.substr(kFrameHeaderBytes, header.payload);
    if (Crc32c(Crc32c(0, bytes.substr(0, kCrcAt)), payload) != header.crc) {
      return Fail(absl::InvalidArgumentError(absl::StrFormat(
          "checksum mismatch in a frame of type %d with %d bytes: corrupted on the way",
          static_cast<int>(header.type), header.payload)));
    }
    consumed_ += kFrameHeaderBytes + header.payload;
    auto message = Assemble(header, payload);
    if (!message.ok()) return Fail(message.status());
    if (message->has_value()) return message;
  }
}

absl::StatusOr<std::optional<Message>> MessageReader::Fail(absl::Status status) {
  failure_ = status;
  buffer_.clear();
  consumed_ = 0;
  partial_.clear();
  return status;
}

absl::Status MessageReader::Check(const Header& header) const {
  if (header.version != kFrameVersion) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "frame of version %d; this end speaks %d: one of the two programs is too old",
        header.version, kFrameVersion));
  }
  if (header.payload > limits_.payload_bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("frame with %d bytes, %d are allowed here (frame_bytes_max)",
                        header.payload, limits_.payload_bytes_max));
  }
  if (header.total > limits_.message_bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("message of %d bytes, %d are allowed (message_bytes_max)", header.total,
                        limits_.message_bytes_max));
  }
  // Only what has an id can be told apart from another message's fragments.
  if (header.more_follows() && (header.payload == 0 || header.id == 0)) {
    return absl::InvalidArgumentError("fragment without an id or without bytes");
  }
  if (header.payload > header.total) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fragment of %d bytes in a message of %d", header.payload, header.total));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Message>> MessageReader::Assemble(const Header& header,
                                                               std::string_view payload) {
  auto it = partial_.find(header.id);
  if (it == partial_.end()) {
    if (!header.more_follows()) {
      if (header.payload != header.total) {
        return absl::InvalidArgumentError(absl::StrFormat("message %d ends after %d of %d bytes",
                                                          header.id, header.payload, header.total));
      }
      return Message{.type = header.type,
                     .must_understand = (header.flags & kMustUnderstand) != 0,
                     .kind = header.kind,
                     .id = header.id,
                     .payload = std::string(payload)};
    }
    if (partial_.size() == limits_.partial_messages_max) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("more than %d messages in fragments at a time (partial_messages_max)",
                          limits_.partial_messages_max));
    }
    if (header.total > limits_.message_bytes_max - partial_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("messages in fragments announce more than %d bytes (message_bytes_max)",
                          limits_.message_bytes_max));
    }
    partial_bytes_ += header.total;
    it = partial_
             .emplace(header.id,
                      Partial{.type = header.type, .kind = header.kind, .total = header.total})
             .first;
  }
  Partial& partial = it->second;
  if (partial.type != header.type || partial.kind != header.kind || partial.total != header.total ||
      partial.payload.size() + payload.size() > partial.total) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fragment does not continue message %d", header.id));
  }
  partial.payload.append(payload);
  if (header.more_follows()) return std::nullopt;
  if (partial.payload.size() != partial.total) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "message %d ends after %d of %d bytes", header.id, partial.payload.size(), partial.total));
  }
  Message message = {.type = header.type,
                     .must_understand = (header.flags & kMustUnderstand) != 0,
                     .kind = header.kind,
                     .id = header.id,
                     .payload = std::move(partial.payload)};
  partial_bytes_ -= partial.total;
  partial_.erase(it);
  return message;
}

void Outbox::Push(Message message) {
  const size_t frames =
      std::max<size_t>(1, (message.payload.size() + kFramePayloadMax - 1) / kFramePayloadMax);
  bytes_ += message.payload.size() + frames * kFrameHeaderBytes;
  queue_.push_back({std::move(message), 0});
}

std::string Outbox::Take(size_t bytes_max) {
  std::string out;
  while (!queue_.empty() && (out.empty() || out.size() < bytes_max)) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    entry.offset += AppendFrame(entry.message, entry.offset, out);
    if (entry.offset < entry.message.payload.size()) queue_.push_back(std::move(entry));
  }
  bytes_ -= out.size();
  return out;
}

}  // namespace lockstep::link
