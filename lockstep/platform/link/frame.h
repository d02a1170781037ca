// Frames: how messages lie on the byte stream of a link. Layout and rules: docs/formats/link.md.
// Pure: bytes in, bytes out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/link/read_buffer.h"

namespace lockstep::link {

inline constexpr size_t kFrameHeaderBytes = 32;
// The header included: `frame_bytes_max`.
inline constexpr size_t kFrameBytesMax = size_t{64} << 10;
inline constexpr size_t kFramePayloadMax = kFrameBytesMax - kFrameHeaderBytes;

enum class FrameType : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kRequest = 4,
  kAnswer = 5,
  kError = 6,
  kPing = 7,
  kFarewell = 8,
  kAnswered = 9,  // of a client: it has the answers up to this one
  kCancel = 10,   // of a client: the request with this id is not wanted any more
  // Between members (docs/formats/rendezvous.md).
  kPeerMessage = 11,       // one of a conversation; `id` is its number
  kPeerAcknowledged = 12,  // in both `kind` is the greatest number received, its low 32 bits
  kPeerClosing = 13,       // the sender ends the conversation, and all before it has been said
  // Of a tunnel, which `id` names: that of the request that opened it.
  kTunnelData = 14,    // bytes of the connection
  kTunnelCredit = 15,  // so many bytes more, in `kind`, may be sent
  kTunnelEnd = 16,     // no more bytes in this direction; `kind` 1: the connection broke
  // Of a server: what comes next for the request with this id answers others as well. Only in a
  // session that takes such answers.
  kAlsoAnswered = 17,
};

// Flag bits of a frame.
inline constexpr uint16_t kMoreFollows = 1;     // not the last fragment of its message
inline constexpr uint16_t kMustUnderstand = 2;  // who does not know the type ends the link

// A whole message, or a frame without fragments.
struct Message {
  FrameType type = FrameType::kPing;  // may be a value that has no name
  bool must_understand = false;
  uint32_t kind = 0;  // of a request and its answer; else 0
  uint64_t id = 0;    // of a request and its answer; else 0
  std::string payload;
  // There was no memory for it: its bytes were read and thrown away, and the payload is empty.
  bool dropped = false;
};

bool IsKnown(FrameType type);
// Whether a frame belongs to a tunnel.
bool IsOfTunnel(FrameType type);

// Appends one frame, which carries `payload` from `offset`, as much as fits, under the rest of
// `message`. Returns how many bytes of the payload that was.
size_t AppendFrame(const Message& message, std::string_view payload, size_t offset,
                   std::string& out);

// All frames of a message, one after the other.
std::string EncodeMessage(const Message& message);

// Turns the bytes of a link into messages. After an error the stream cannot be trusted any more and
// the reader answers the same error for ever.
//
// Threads: thread-compatible. Bounds: `Limits`.
class MessageReader {
 public:
  struct Limits {
    size_t payload_bytes_max = 0;  // of one frame
    size_t message_bytes_max = 0;  // of one message, and of all partial messages together
    size_t partial_messages_max = 0;
  };

  explicit MessageReader(Limits limits) : limits_(limits) {}

  // For after the welcome, when more is allowed.
  void SetLimits(Limits limits) { limits_ = limits; }

  // Asked before a message of several frames is given memory for so many bytes. What there is no
  // room for is read to its end and comes as `dropped`.
  using HasRoom = std::function<bool(size_t bytes)>;
  void SetRoom(HasRoom has_room) { has_room_ = std::move(has_room); }

  // What it holds, as it costs.
  size_t memory() const { return partial_memory_ + buffer_.memory() + whole_.payload.capacity(); }

  // To be called in equal intervals. True: a message that was unfinished at the last call has not
  // ended since, nor come on by `bytes_min`.
  bool Stalled(size_t bytes_min);

  // What came next of the stream, however it was cut.
  void Append(std::string_view bytes);

  // The same without a copy: where the next bytes go, of which `Commit` says how many have come.
  // The rest of a long frame goes to its place in the message (`payload` is not empty), and what
  // comes behind it into a buffer, as else everything does; then that has room for `bytes`.
  struct Room {
    std::span<char> payload;
    std::span<char> buffer;
  };
  Room Prepare(size_t bytes);
  // The same for as many bytes as the stream's pace suggests: more while more comes.
  Room Prepare() { return Prepare(read_bytes_); }
  // Of the last `Prepare`: `payload` was filled before `buffer`.
  void Commit(size_t bytes);

  // The next whole message; nothing when more bytes are needed. INVALID_ARGUMENT: these are not
  // frames or they break the rules. RESOURCE_EXHAUSTED: a limit, named.
  absl::StatusOr<std::optional<Message>> Next();

 private:
  struct Header;
  // A message of which not everything has come.
  struct Partial {
    FrameType type;
    uint32_t kind = 0;
    uint32_t total = 0;
    std::string payload;
    size_t received = 0;  // in frames that are whole
    bool dropped = false;
    std::optional<size_t> looked_at = std::nullopt;  // `received` at the last call of `Stalled`
  };
  // The frame whose header has been taken.
  struct Frame {
    Partial* message = nullptr;  // that it belongs to; null: there is no frame
    uint64_t id = 0;
    uint16_t flags = 0;
    size_t payload = 0;  // at the end of the message's
    size_t missing = 0;  // of that, what has not come
    uint32_t crc = 0;
    uint32_t header_crc = 0;
  };

  bool ReadsToPlace() const;
  std::span<char> MissingPayload();
  absl::StatusOr<std::optional<Message>> Fail(absl::Status status);
  absl::Status Check(const Header& header) const;
  absl::StatusOr<bool> Begin();
  absl::StatusOr<Partial*> MessageOf(const Header& header);
  void MakeRoom(Partial& partial, size_t bytes);
  absl::StatusOr<std::optional<Message>> End();

  Limits limits_;
  ReadBuffer buffer_;
  size_t read_bytes_ = size_t{4} << 10;  // how much is read at a time
  Frame frame_;
  Partial whole_;                             // a message of one frame
  std::map<uint64_t, Partial> partial_;       // those of several, by id
  size_t partial_bytes_ = 0;                  // announced by all of `partial_`
  size_t partial_memory_ = 0;                 // held by all of `partial_`
  HasRoom has_room_;                          // null: there always is
  uint64_t frames_ = 0;                       // that are whole
  std::optional<uint64_t> frames_looked_at_;  // at the last call of `Stalled`, within a frame
  absl::Status failure_;
};

// What is written at a time. Long payloads are not copied but referred to.
struct Batch {
  // So many bytes from `bytes`, then a payload.
  struct Part {
    size_t bytes = 0;
    std::string_view payload;
  };
  std::string bytes;  // what is behind the last part included
  std::vector<Part> parts;
  std::vector<std::shared_ptr<const std::string>> payloads;  // kept for `parts`
  size_t size = 0;

  // All of it, in order.
  std::vector<std::string_view> Pieces() const;
  // Empty again, for the next write; memory that a burst needed is given back.
  void Clear();
};

// Messages that wait to be written. Long ones take turns, a frame each, so that short ones overtake
// them; those of one turn keep their order. So many take turns as the other end takes in fragments
// at a time; those that come later begin, in order, as those end.
//
// Threads: thread-compatible. Bounds: the caller looks at `bytes()`.
class Outbox {
 public:
  // What a message costs beside its payload and headers, while it waits for its turn.
  static constexpr size_t kEntryBytes = 192;
  // Of messages in fragments at a time. One may be longer, alone.
  static constexpr size_t kTurnsMax = 16;
  static constexpr size_t kTurnsBytesMax = size_t{8} << 20;

  // What the other end takes of messages in fragments together, if less than kTurnsBytesMax.
  void SetPeerMax(size_t message_bytes_max) {
    turns_bytes_max_ = std::min(message_bytes_max, kTurnsBytesMax);
  }

  void Push(Message message);
  // With a payload that others send as well, instead of the message's own.
  void Push(Message message, std::shared_ptr<const std::string> payload);

  // Puts into `out`, which is empty, frames of about `bytes_max` bytes at most, at least one when
  // there is any. Whatever `out` had reserved is used again.
  void Take(size_t bytes_max, Batch& out);

  bool empty() const { return bytes_ == 0; }
  // Payload and headers that have not been taken, and what it costs to keep them.
  size_t bytes() const { return bytes_ + waiting() * kEntryBytes; }
  // What it holds, as it costs: payloads that others send as well are counted in part.
  size_t memory() const { return ready_.capacity() + payloads_ + waiting() * kEntryBytes; }

 private:
  struct Entry {
    Message message;  // without its payload
    std::shared_ptr<const std::string> payload;
    size_t offset = 0;
    size_t cost = 0;  // of the payload

    bool in_fragments() const { return payload->size() > kFramePayloadMax; }
  };
  size_t waiting() const { return queue_.size() + later_.size(); }
  // Whether the other end takes its fragments beside those of the messages in the queue.
  bool MayBegin(const Entry& entry) const;
  // Into the queue: it takes turns from now on.
  void Begin(Entry entry);
  void Queue(Message message, std::shared_ptr<const std::string> payload);
  // Whether it can go out with what is ready; then it has been copied there.
  bool PushReady(const Message& message, std::string_view payload);

  // Frames already: short messages that came while nothing was in their way.
  std::string ready_;
  std::deque<Entry> queue_;
  std::deque<Entry> later_;  // long ones that have not begun
  size_t turns_ = 0;         // of messages in fragments that are in the queue
  size_t turns_bytes_ = 0;   // of their payloads
  size_t turns_bytes_max_ = kTurnsBytesMax;
  size_t bytes_ = 0;
  size_t payloads_ = 0;  // the costs of those in the queue
};

}  // namespace lockstep::link
