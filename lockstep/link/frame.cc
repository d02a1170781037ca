#include "lockstep/link/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/crc32c.h"

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

// Frames that are ready wait in one piece of up to so many bytes.
constexpr size_t kReadyBytesMax = size_t{256} << 10;
// A buffer that has grown beyond this is given back when it is empty.
constexpr size_t kKeptBytesMax = size_t{64} << 10;

template <class T>
void Put(char* header, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) header[at + i] = static_cast<char>(value >> (8 * i));
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

size_t AppendFrame(const Message& message, std::string_view payload, size_t offset,
                   std::string& out) {
  LOCKSTEP_CHECK(offset <= payload.size());
  LOCKSTEP_CHECK(payload.size() <= UINT32_MAX);
  const std::string_view part = payload.substr(offset, kFramePayloadMax);
  const bool more = offset + part.size() < payload.size();
  std::array<char, kFrameHeaderBytes> header;
  kMagic.copy(header.data(), kMagic.size());
  Put<uint8_t>(header.data(), kVersionAt, kFrameVersion);
  Put<uint8_t>(header.data(), kTypeAt, static_cast<uint8_t>(message.type));
  Put<uint16_t>(header.data(), kFlagsAt,
                static_cast<uint16_t>((more ? kMoreFollows : 0) |
                                      (message.must_understand ? kMustUnderstand : 0)));
  Put<uint32_t>(header.data(), kKindAt, message.kind);
  Put<uint32_t>(header.data(), kPayloadAt, static_cast<uint32_t>(part.size()));
  Put<uint64_t>(header.data(), kIdAt, message.id);
  Put<uint32_t>(header.data(), kTotalAt, static_cast<uint32_t>(payload.size()));
  Put<uint32_t>(header.data(), kCrcAt,
                Crc32c(Crc32c(0, std::string_view(header.data(), kCrcAt)), part));
  out.append(header.data(), header.size());
  out.append(part);
  return part.size();
}

std::string EncodeMessage(const Message& message) {
  std::string out;
  size_t offset = 0;
  do {
    offset += AppendFrame(message, message.payload, offset, out);
  } while (offset < message.payload.size());
  return out;
}

void MessageReader::Append(std::string_view bytes) {
  bytes.copy(Prepare(bytes.size()), bytes.size());
  Commit(bytes.size());
}

char* MessageReader::Prepare(size_t bytes) {
  if (consumed_ == filled_) {
    consumed_ = filled_ = 0;
    if (buffer_.size() > kKeptBytesMax && bytes <= kKeptBytesMax) buffer_ = std::string();
  } else if (buffer_.size() - filled_ < bytes) {
    // What is left of a frame moves to the front: less than a frame each time.
    std::memmove(buffer_.data(), buffer_.data() + consumed_, filled_ - consumed_);
    filled_ -= std::exchange(consumed_, 0);
  }
  if (buffer_.size() - filled_ < bytes) buffer_.resize(filled_ + bytes);
  return buffer_.data() + filled_;
}

absl::StatusOr<std::optional<Message>> MessageReader::Next() {
  if (!failure_.ok()) return failure_;
  while (true) {
    const std::string_view bytes(buffer_.data() + consumed_, filled_ - consumed_);
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
  buffer_ = std::string();
  consumed_ = filled_ = 0;
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
    // Room, but no memory that is not written to: who announces more than comes costs nothing.
    it->second.payload.reserve(header.total);
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
  Push(Entry{.message = std::move(message), .shared = nullptr});
}

void Outbox::Push(Message message, std::shared_ptr<const std::string> payload) {
  Push(Entry{.message = std::move(message), .shared = std::move(payload)});
}

void Outbox::Push(Entry entry) {
  const size_t payload = entry.payload().size();
  const size_t frames = std::max<size_t>(1, (payload + kFramePayloadMax - 1) / kFramePayloadMax);
  bytes_ += payload + frames * kFrameHeaderBytes;
  if (frames == 1 && queue_.empty() && ready_.size() < kReadyBytesMax) {
    AppendFrame(entry.message, entry.payload(), 0, ready_);
  } else {
    queue_.push_back(std::move(entry));
  }
}

void Outbox::Take(size_t bytes_max, std::string& out) {
  LOCKSTEP_CHECK(out.empty());
  if (out.capacity() > kKeptBytesMax) out = std::string();
  out.swap(ready_);
  if (!queue_.empty()) out.reserve(std::min(bytes_, bytes_max + kFrameBytesMax));
  while (!queue_.empty() && (out.empty() || out.size() < bytes_max)) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    entry.offset += AppendFrame(entry.message, entry.payload(), entry.offset, out);
    if (entry.offset < entry.payload().size()) queue_.push_back(std::move(entry));
  }
  bytes_ -= out.size();
}

}  // namespace lockstep::link
