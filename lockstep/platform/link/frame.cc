#include "lockstep/platform/link/frame.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/base/limits.h"

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
// Each field begins where the one before it ends, and the checksum ends the header.
static_assert(kVersionAt == kMagic.size());
static_assert(kTypeAt == kVersionAt + sizeof(uint8_t));
static_assert(kFlagsAt == kTypeAt + sizeof(uint8_t));
static_assert(kKindAt == kFlagsAt + sizeof(uint16_t));
static_assert(kPayloadAt == kKindAt + sizeof(uint32_t));
static_assert(kIdAt == kPayloadAt + sizeof(uint32_t));
static_assert(kTotalAt == kIdAt + sizeof(uint64_t));
static_assert(kCrcAt == kTotalAt + sizeof(uint32_t));
static_assert(kFrameHeaderBytes == kCrcAt + sizeof(uint32_t));
// The length of a message has four bytes there.
static_assert(kMessageBytesMax <= UINT32_MAX);

// Frames that are ready wait in one piece of up to so many bytes.
constexpr size_t kReadyBytesMax = size_t{256} << 10;
// A batch that has grown beyond this gives its memory back when it is cleared.
constexpr size_t kKeptBytesMax = size_t{64} << 10;
// How much is read at a time.
constexpr size_t kReadBytesMin = size_t{4} << 10;
constexpr size_t kReadBytesMax = size_t{64} << 10;
// Payloads from here on are read to their place and written from it; shorter ones are copied, which
// costs less than another piece for the kernel.
constexpr size_t kLongBytes = size_t{8} << 10;
// What is read behind the rest of a long frame: the next header, and short messages.
constexpr size_t kReadBehindBytes = size_t{4} << 10;
// `PushReady` appends one frame: a payload that is not long needs no second one.
static_assert(kLongBytes <= kFramePayloadMax);
static_assert(kLongBytes < kReadyBytesMax);
// The least that is read holds a header, and the most a whole frame.
static_assert(kFrameHeaderBytes <= kReadBytesMin && kReadBytesMin <= kReadBytesMax);
static_assert(kFrameBytesMax <= kReadBytesMax);
static_assert(kFrameHeaderBytes <= kReadBehindBytes);

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

// Appends the header of the frame that carries `payload` from `offset`; returns what it carries.
std::string_view AppendHeader(const Message& message, std::string_view payload, size_t offset,
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
  return part;
}

// Room for all of a message is made at once up to this; then as it comes.
constexpr size_t kRoomAtOnceMax = size_t{16} << 20;
static_assert(kFrameBytesMax <= kRoomAtOnceMax && kRoomAtOnceMax < kMessageBytesMax);

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

bool IsKnown(FrameType type) {
  return type >= FrameType::kHello && type <= FrameType::kAlsoAnswered;
}

bool IsOfTunnel(FrameType type) {
  return type >= FrameType::kTunnelData && type <= FrameType::kTunnelEnd;
}

size_t AppendFrame(const Message& message, std::string_view payload, size_t offset,
                   std::string& out) {
  const std::string_view part = AppendHeader(message, payload, offset, out);
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
  while (!bytes.empty()) {
    const Room room = Prepare(bytes.size());
    const std::span<char> to = room.payload.empty() ? room.buffer : room.payload;
    const size_t count = bytes.copy(to.data(), to.size());
    Commit(count);
    bytes.remove_prefix(count);
  }
}

std::span<char> MessageReader::MissingPayload() {
  LOCKSTEP_DCHECK(frame_.message != nullptr);
  LOCKSTEP_DCHECK(frame_.missing <= frame_.message->payload.size());
  std::string& payload = frame_.message->payload;
  return std::span(payload).last(frame_.missing);
}

// Not past what has come already and is not taken.
bool MessageReader::ReadsToPlace() const { return frame_.missing >= kLongBytes && buffer_.empty(); }

MessageReader::Room MessageReader::Prepare(size_t bytes) {
  if (!ReadsToPlace()) return {.payload = {}, .buffer = buffer_.Prepare(bytes)};
  return {.payload = MissingPayload(), .buffer = buffer_.Prepare(kReadBehindBytes)};
}

void MessageReader::Commit(size_t bytes) {
  if (bytes == read_bytes_) {
    read_bytes_ = std::min(read_bytes_ * 8, kReadBytesMax);
  } else if (bytes < read_bytes_ / 4) {
    read_bytes_ = std::max(read_bytes_ / 2, kReadBytesMin);
  }
  if (ReadsToPlace()) {
    const size_t here = std::min(bytes, frame_.missing);
    frame_.missing -= here;
    bytes -= here;
  }
  buffer_.Commit(bytes);
}

absl::StatusOr<std::optional<Message>> MessageReader::Next() {
  if (!failure_.ok()) return failure_;
  while (true) {
    if (frame_.message == nullptr) {
      const absl::StatusOr<bool> begun = Begin();
      if (!begun.ok()) return Fail(begun.status());
      if (!*begun) return std::nullopt;
    }
    const std::span<char> missing = MissingPayload();
    const size_t come = buffer_.unread().copy(missing.data(), missing.size());
    buffer_.Consume(come);
    frame_.missing -= come;
    if (frame_.missing > 0) return std::nullopt;
    auto message = End();
    if (!message.ok()) return Fail(message.status());
    if (message->has_value()) return message;
  }
}

// Takes the header of the next frame and makes room for its payload. False: more bytes are needed.
absl::StatusOr<bool> MessageReader::Begin() {
  const std::string_view bytes = buffer_.unread();
  if (!StartsLikeAFrame(bytes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "not a frame of the link: begins with \"%s\"; is this a client of another protocol?",
        absl::CHexEscape(std::string(bytes.substr(0, 8)))));
  }
  if (bytes.size() < kFrameHeaderBytes) return false;
  const Header header = Header::Parse(bytes);
  // Before the payload is waited for: a wrong length must not make us wait for it.
  if (absl::Status checked = Check(header); !checked.ok()) return checked;
  const auto message = MessageOf(header);
  if (!message.ok()) return message.status();
  std::string& payload = (*message)->payload;
  frame_ = {.message = *message,
            .id = header.id,
            .flags = header.flags,
            .payload = header.payload,
            .missing = header.payload,
            .crc = header.crc,
            .header_crc = Crc32c(0, bytes.substr(0, kCrcAt))};
  // For this frame, not for all that is announced: who announces more than comes costs little.
  MakeRoom(**message, header.payload);
  payload.resize(payload.size() + header.payload);
  buffer_.Consume(kFrameHeaderBytes);
  return true;
}

absl::StatusOr<std::optional<Message>> MessageReader::Fail(absl::Status status) {
  failure_ = status;
  buffer_.Clear();
  frame_ = {};
  partial_.clear();
  partial_bytes_ = partial_memory_ = 0;
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

// So many bytes more are about to come of it. A message that there is no memory for is read on, so
// that its sender can be told, but not kept.
void MessageReader::MakeRoom(Partial& partial, size_t bytes) {
  if (&partial == &whole_) return;
  partial_memory_ -= partial.payload.capacity();
  const bool first = partial.received == 0;
  const size_t capacity = partial.payload.capacity();
  const bool grows = partial.payload.size() + bytes > capacity;
  // All of it in the beginning; later what it takes to move to a place of twice the size.
  const size_t more = first ? partial.total : grows ? 2 * capacity : 0;
  if (!partial.dropped && has_room_ && !has_room_(more)) partial.dropped = true;
  if (partial.dropped) {
    std::string().swap(partial.payload);  // a mere assignment would keep the memory
  } else if (first && partial.total <= kRoomAtOnceMax && (!has_room_ || has_room_(4 * more))) {
    partial.payload.reserve(partial.total);
  }
  partial.payload.reserve(partial.payload.size() + bytes);
  partial_memory_ += partial.payload.capacity();
}

bool MessageReader::Stalled(size_t bytes_min) {
  bool stalled = false;
  for (auto& [id, partial] : partial_) {
    stalled = stalled || (partial.looked_at && partial.received - *partial.looked_at < bytes_min);
    partial.looked_at = partial.received;
  }
  const bool within = frame_.message != nullptr;
  stalled = stalled || (within && frames_looked_at_ == frames_);
  frames_looked_at_ = within ? std::optional(frames_) : std::nullopt;
  return stalled;
}

// The message that the frame begins, continues or is.
absl::StatusOr<MessageReader::Partial*> MessageReader::MessageOf(const Header& header) {
  auto it = partial_.find(header.id);
  if (it == partial_.end()) {
    if (!header.more_follows()) {
      if (header.payload != header.total) {
        return absl::InvalidArgumentError(absl::StrFormat("message %d ends after %d of %d bytes",
                                                          header.id, header.payload, header.total));
      }
      whole_ = {.type = header.type, .kind = header.kind, .total = header.total, .payload = {}};
      return &whole_;
    }
    if (partial_.size() == limits_.partial_messages_max) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("more than %d messages in fragments at a time (partial_messages_max)",
                          limits_.partial_messages_max));
    }
    LOCKSTEP_DCHECK(partial_bytes_ <= limits_.message_bytes_max);  // or the difference wraps
    if (header.total > limits_.message_bytes_max - partial_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("messages in fragments announce more than %d bytes (message_bytes_max)",
                          limits_.message_bytes_max));
    }
    partial_bytes_ += header.total;
    it = partial_
             .emplace(header.id, Partial{.type = header.type,
                                         .kind = header.kind,
                                         .total = header.total,
                                         .payload = {}})
             .first;
  }
  Partial& partial = it->second;
  const size_t bytes = partial.received + header.payload;
  if (partial.type != header.type || partial.kind != header.kind || partial.total != header.total ||
      bytes > partial.total) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fragment does not continue message %d", header.id));
  }
  if (!header.more_follows() && bytes != partial.total) {
    return absl::InvalidArgumentError(
        absl::StrFormat("message %d ends after %d of %d bytes", header.id, bytes, partial.total));
  }
  return &partial;
}

// The whole frame has come; perhaps with it the whole message.
absl::StatusOr<std::optional<Message>> MessageReader::End() {
  LOCKSTEP_DCHECK(frame_.missing == 0);
  LOCKSTEP_DCHECK(frame_.payload <= frame_.message->payload.size());
  const Frame frame = std::exchange(frame_, {});
  Partial& partial = *frame.message;
  const std::string_view payload = partial.payload;
  if (Crc32c(frame.header_crc, payload.substr(payload.size() - frame.payload)) != frame.crc) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "checksum mismatch in a frame of type %d with %d bytes: corrupted on the way",
        static_cast<int>(partial.type), frame.payload));
  }
  ++frames_;
  partial.received += frame.payload;
  if (partial.dropped) partial.payload.clear();
  if ((frame.flags & kMoreFollows) != 0) return std::nullopt;
  LOCKSTEP_DCHECK(partial.received == partial.total);  // or `MessageOf` had refused the frame
  if (&partial != &whole_) partial_memory_ -= partial.payload.capacity();
  Message message = {.type = partial.type,
                     .must_understand = (frame.flags & kMustUnderstand) != 0,
                     .kind = partial.kind,
                     .id = frame.id,
                     .payload = std::move(partial.payload),
                     .dropped = partial.dropped};
  if (&partial != &whole_) {
    LOCKSTEP_DCHECK(partial_bytes_ >= partial.total);
    partial_bytes_ -= partial.total;
    partial_.erase(frame.id);
  }
  return message;
}

std::vector<std::string_view> Batch::Pieces() const {
  std::vector<std::string_view> pieces;
  pieces.reserve(2 * parts.size() + 1);
  std::string_view rest = bytes;
  for (const Part& part : parts) {
    pieces.push_back(rest.substr(0, part.bytes));
    pieces.push_back(part.payload);
    rest.remove_prefix(part.bytes);
  }
  if (!rest.empty()) pieces.push_back(rest);
  return pieces;
}

void Batch::Clear() {
  if (bytes.capacity() > kKeptBytesMax) std::string().swap(bytes);
  bytes.clear();
  parts.clear();
  payloads.clear();
  size = 0;
}

void Outbox::Push(Message message) {
  if (PushReady(message, message.payload)) return;
  auto payload = std::make_shared<const std::string>(std::move(message.payload));
  Queue(std::move(message), std::move(payload));
}

void Outbox::Push(Message message, std::shared_ptr<const std::string> payload) {
  if (PushReady(message, *payload)) return;
  Queue(std::move(message), std::move(payload));
}

void Outbox::Queue(Message message, std::shared_ptr<const std::string> payload) {
  // The first of those who share it counts all of it, each further one less.
  const size_t cost = payload->size() / static_cast<size_t>(std::max(1L, payload.use_count()));
  payloads_ += cost;
  Entry entry = {.message = std::move(message), .payload = std::move(payload), .cost = cost};
  // Behind those that wait to begin, or a very long one would never.
  if (entry.in_fragments() && (!later_.empty() || !MayBegin(entry))) {
    later_.push_back(std::move(entry));
  } else {
    Begin(std::move(entry));
  }
}

bool Outbox::MayBegin(const Entry& entry) const {
  return turns_ == 0 || (turns_ < kTurnsMax && turns_bytes_ < turns_bytes_max_ &&
                         entry.payload->size() <= turns_bytes_max_ - turns_bytes_);
}

void Outbox::Begin(Entry entry) {
  if (entry.in_fragments()) {
    ++turns_;
    turns_bytes_ += entry.payload->size();
  }
  queue_.push_back(std::move(entry));
}

bool Outbox::PushReady(const Message& message, std::string_view payload) {
  const size_t frames =
      std::max<size_t>(1, (payload.size() + kFramePayloadMax - 1) / kFramePayloadMax);
  bytes_ += payload.size() + frames * kFrameHeaderBytes;
  if (payload.size() >= kLongBytes || !queue_.empty() || ready_.size() >= kReadyBytesMax) {
    return false;
  }
  AppendFrame(message, payload, 0, ready_);
  return true;
}

void Outbox::Take(size_t bytes_max, Batch& out) {
  LOCKSTEP_CHECK(out.size == 0);
  LOCKSTEP_DCHECK(out.bytes.empty() && out.parts.empty());
  out.bytes.swap(ready_);
  out.size = out.bytes.size();
  size_t in_parts = 0;  // of `out.bytes`
  while (!queue_.empty() && (out.size == 0 || out.size < bytes_max)) {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    const std::string_view part =
        AppendHeader(entry.message, *entry.payload, entry.offset, out.bytes);
    out.size += kFrameHeaderBytes + part.size();
    entry.offset += part.size();
    if (part.size() < kLongBytes) {
      out.bytes.append(part);
    } else {
      out.parts.push_back(
          {.bytes = out.bytes.size() - std::exchange(in_parts, out.bytes.size()), .payload = part});
      out.payloads.push_back(entry.payload);
    }
    if (entry.offset < entry.payload->size()) {
      queue_.push_back(std::move(entry));
      continue;
    }
    payloads_ -= entry.cost;
    if (!entry.in_fragments()) continue;
    --turns_;
    turns_bytes_ -= entry.payload->size();
    for (; !later_.empty() && MayBegin(later_.front()); later_.pop_front()) {
      Begin(std::move(later_.front()));
    }
  }
  LOCKSTEP_DCHECK(bytes_ >= out.size);
  bytes_ -= out.size;
  LOCKSTEP_DCHECK(!queue_.empty() || (bytes_ == 0 && payloads_ == 0 && later_.empty()));
  LOCKSTEP_DCHECK(turns_ > 0 || (turns_bytes_ == 0 && later_.empty()));
}

}  // namespace lockstep::link
