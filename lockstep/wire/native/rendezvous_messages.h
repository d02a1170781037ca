// What members say to each other, without the server, to hand values over. Contract:
// proto/lockstep/v1/rendezvous.proto; what they mean: lockstep/rendezvous/messages.h and
// rendezvous_codec.h. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// How a member can be reached. It stands in a key-value of the job, under the member's name.
struct Card {
  uint32_t version = 0;
  // The next tell whether two processes share a host, and what they can share there. The kernel's
  // random id of this boot; inodes of the namespaces; 0 or empty: not known.
  std::string boot_id;
  int64_t pid = 0;
  uint32_t uid = 0;
  std::string host;
  uint64_t pid_namespace = 0;
  uint64_t net_namespace = 0;
  uint64_t ipc_namespace = 0;
  uint64_t user_namespace = 0;
  // HOST:PORT; empty: it does not listen there, as with the next.
  std::string tcp_address;
  // A path, or a name with @ in front.
  std::string unix_address;
  uint64_t page_size = 0;
  bool big_endian = false;
  // Stable names ("shm", "cma", "tcp"), the best first.
  std::vector<std::string> transports;
  // Who presents it has read this card, and so belongs to the job.
  Bytes token;
  // HOST:PORT where the bytes of values are fetched; empty: nowhere.
  std::string bulk_address;
  // The member's, as in its name (2 in "trainer/4#2"); a greater one is a newer process. Never 0.
  uint64_t incarnation = 0;

  friend bool operator==(const Card&, const Card&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Card";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &Card::version, kCheckedNumber),
        Field(2, "boot_id", &Card::boot_id, kNameBytes), Field(3, "pid", &Card::pid, kPid),
        Field(4, "uid", &Card::uid, kAnyNumber), Field(5, "host", &Card::host, kIdBytes),
        Field(6, "pid_namespace", &Card::pid_namespace, kAnyNumber),
        Field(7, "net_namespace", &Card::net_namespace, kAnyNumber),
        Field(8, "ipc_namespace", &Card::ipc_namespace, kAnyNumber),
        Field(9, "user_namespace", &Card::user_namespace, kAnyNumber),
        Field(10, "tcp_address", &Card::tcp_address, kAddressBytes),
        Field(11, "unix_address", &Card::unix_address, kIdBytes),
        Field(12, "page_size", &Card::page_size, kAnyNumber),
        Field(13, "big_endian", &Card::big_endian),
        Field(14, "transports", &Card::transports, kNameBytes, kFew),
        Field(15, "token", &Card::token, kNameBytes),
        Field(16, "bulk_address", &Card::bulk_address, kAddressBytes),
        Field(17, "incarnation", &Card::incarnation, kAnyNumber));
  }
};

enum class LinkPurpose : int32_t {
  kUnspecified = 0,
  // Peer messages, both ways.
  kConversation = 1,
  // Chunks of values, to the end that dialed.
  kBulk = 2,
  // Please dial me: of two members the one with the smaller index dials.
  kKnock = 3,
};

constexpr std::array<EnumName<LinkPurpose>, 4> EnumNames(LinkPurpose) {
  using enum LinkPurpose;
  return {{{kUnspecified, "unspecified"},
           {kConversation, "conversation"},
           {kBulk, "bulk"},
           {kKnock, "knock"}}};
}

// The first message of the end that dialed.
struct PeerHello {
  // The versions of these messages that the sender speaks, both included.
  uint32_t version_min = 0;
  uint32_t version_max = 0;
  LinkPurpose purpose = LinkPurpose::kUnspecified;
  std::string job;
  // Of the job, from 1.
  int64_t attempt = 0;
  // Indices and lives of who dialed, and of whom it wants.
  int32_t from = 0;
  uint64_t from_incarnation = 0;
  int32_t to = 0;
  uint64_t to_incarnation = 0;
  // 16 random bytes, chosen by the sender and the same on all its links to this peer. Another one:
  // it remembers nothing of what was said before.
  Bytes conversation;
  // From the other's card.
  Bytes token;
  // The greatest number among the messages that it has received in this conversation.
  uint64_t received_through = 0;
  // Goes up with each link that the sender dials or takes: tells old hellos from new ones.
  uint64_t turn = 0;
  // As in the card.
  std::vector<std::string> transports;
  // The other's, which this one goes on with; empty before the first welcome.
  Bytes peer_conversation;

  friend bool operator==(const PeerHello&, const PeerHello&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PeerHello";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version_min", &PeerHello::version_min, kCheckedNumber),
        Field(2, "version_max", &PeerHello::version_max, kCheckedNumber),
        Field(3, "purpose", &PeerHello::purpose), Field(4, "job", &PeerHello::job, kIdBytes),
        Field(5, "attempt", &PeerHello::attempt, kCheckedNumber),
        Field(6, "from", &PeerHello::from, kCheckedNumber),
        Field(7, "from_incarnation", &PeerHello::from_incarnation, kCheckedNumber),
        Field(8, "to", &PeerHello::to, kCheckedNumber),
        Field(9, "to_incarnation", &PeerHello::to_incarnation, kCheckedNumber),
        Field(10, "conversation", &PeerHello::conversation, kNameBytes),
        Field(11, "token", &PeerHello::token, kNameBytes),
        Field(12, "received_through", &PeerHello::received_through, kCheckedNumber),
        Field(13, "turn", &PeerHello::turn, kCheckedNumber),
        Field(14, "transports", &PeerHello::transports, kNameBytes, kFew),
        Field(15, "peer_conversation", &PeerHello::peer_conversation, kNameBytes));
  }
};

// The answer to a hello that is accepted.
struct PeerWelcome {
  // The version spoken from here on: the greatest that both know.
  uint32_t version = 0;
  uint64_t incarnation = 0;
  // As in the hello, of the end that was dialed; likewise the next three.
  Bytes conversation;
  uint64_t received_through = 0;
  uint64_t turn = 0;
  std::vector<std::string> transports;
  // On a bulk link, when both offer "cma": where 16 random bytes stand in the memory of who was
  // dialed, and which. Who finds them there may ask for places.
  uint64_t proof_address = 0;
  Bytes proof;

  friend bool operator==(const PeerWelcome&, const PeerWelcome&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PeerWelcome";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "version", &PeerWelcome::version, kCheckedNumber),
        Field(2, "incarnation", &PeerWelcome::incarnation, kCheckedNumber),
        Field(3, "conversation", &PeerWelcome::conversation, kNameBytes),
        Field(4, "received_through", &PeerWelcome::received_through, kCheckedNumber),
        Field(5, "turn", &PeerWelcome::turn, kCheckedNumber),
        Field(6, "transports", &PeerWelcome::transports, kNameBytes, kFew),
        Field(7, "proof_address", &PeerWelcome::proof_address, kCheckedNumber),
        Field(8, "proof", &PeerWelcome::proof, kNameBytes));
  }
};

// Between processes of one host, with the descriptor of the memory: the arena has one more segment,
// or one less.
struct SegmentNotice {
  uint32_t segment = 0;
  uint64_t bytes = 0;
  bool removed = false;
  // No segment: who sends it closes, and could not say so where messages go.
  bool closes = false;

  friend bool operator==(const SegmentNotice&, const SegmentNotice&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SegmentNotice";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "segment", &SegmentNotice::segment, kCheckedNumber),
                           Field(2, "bytes", &SegmentNotice::bytes, kNatural),
                           Field(3, "removed", &SegmentNotice::removed),
                           Field(4, "closes", &SegmentNotice::closes));
  }
};

// On a bulk link: these bytes of a value please. The answer is the bytes, raw
// (docs/formats/rendezvous.md).
struct FetchChunk {
  uint64_t lease = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // Where they lie in the sender's memory, instead of them.
  bool place = false;
  // Nothing of the lease is read there any more; there is no answer. Only with the lease.
  bool done = false;

  friend bool operator==(const FetchChunk&, const FetchChunk&) = default;
  static constexpr std::string_view kName = "lockstep.v1.FetchChunk";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lease", &FetchChunk::lease, kCheckedNumber),
                           Field(2, "offset", &FetchChunk::offset, kCheckedNumber),
                           Field(3, "bytes", &FetchChunk::bytes, kCheckedNumber),
                           Field(4, "place", &FetchChunk::place),
                           Field(5, "done", &FetchChunk::done));
  }
};

// A C-contiguous tensor. The type in DLPack's terms.
struct Description {
  // 0 int, 1 uint, 2 float, 3 opaque, 4 bfloat, 5 complex, 6 bool, 7 and up the small floats.
  uint32_t code = 0;
  // Of one lane; never 0.
  uint32_t bits = 0;
  // Never 0.
  uint32_t lanes = 0;
  // None: one element.
  std::vector<int64_t> shape;

  friend bool operator==(const Description&, const Description&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Description";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "code", &Description::code, kCheckedNumber),
                           Field(2, "bits", &Description::bits, kCheckedNumber),
                           Field(3, "lanes", &Description::lanes, kCheckedNumber),
                           Field(4, "shape", &Description::shape, kCheckedNumber, kNumbers));
  }
};

// In a segment of the sender's arena that the receiver has mapped.
struct ArenaPlace {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // Of the block: another one stands there when the place has been used again.
  uint64_t generation = 0;

  friend bool operator==(const ArenaPlace&, const ArenaPlace&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ArenaPlace";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "segment", &ArenaPlace::segment, kCheckedNumber),
                           Field(2, "offset", &ArenaPlace::offset, kCheckedNumber),
                           Field(3, "bytes", &ArenaPlace::bytes, kCheckedNumber),
                           Field(4, "generation", &ArenaPlace::generation, kCheckedNumber));
  }
};

// With its sender: fetched by the offer's lease over a bulk link.
struct FetchPlace {
  uint64_t bytes = 0;

  friend bool operator==(const FetchPlace&, const FetchPlace&) = default;
  static constexpr std::string_view kName = "lockstep.v1.FetchPlace";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "bytes", &FetchPlace::bytes, kCheckedNumber));
  }
};

// Where the bytes of an offered value are. At most one field; none: it has no bytes.
struct Placement {
  std::optional<BytesView> inline_bytes;
  std::optional<ArenaPlace> arena;
  std::optional<FetchPlace> fetch;

  friend bool operator==(const Placement&, const Placement&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Placement";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "inline_bytes", &Placement::inline_bytes, kValueBytes),
                           Field(2, "arena", &Placement::arena),
                           Field(3, "fetch", &Placement::fetch));
  }
};

enum class FailureReason : int32_t {
  kUnspecified = 0,
  kStepAborted = 1,
  kStepClosed = 2,
  kStepNotOpened = 3,
  kPeerLost = 4,
  kPeerRestarted = 5,
  kUnreachable = 6,
  kReceiveTimedOut = 7,
  kCancelled = 8,
  kQuotaExceeded = 9,
  kTooManyWaits = 10,
  kSizeMismatch = 11,
  kKeyInvalid = 12,
  kUnknownMember = 13,
  kInvalidArgument = 14,
  kRendezvousClosed = 15,
  kProtocol = 16,
};

constexpr std::array<EnumName<FailureReason>, 17> EnumNames(FailureReason) {
  using enum FailureReason;
  return {{{kUnspecified, "unspecified"},
           {kStepAborted, "step_aborted"},
           {kStepClosed, "step_closed"},
           {kStepNotOpened, "step_not_opened"},
           {kPeerLost, "peer_lost"},
           {kPeerRestarted, "peer_restarted"},
           {kUnreachable, "unreachable"},
           {kReceiveTimedOut, "receive_timed_out"},
           {kCancelled, "cancelled"},
           {kQuotaExceeded, "quota_exceeded"},
           {kTooManyWaits, "too_many_waits"},
           {kSizeMismatch, "size_mismatch"},
           {kKeyInvalid, "key_invalid"},
           {kUnknownMember, "unknown_member"},
           {kInvalidArgument, "invalid_argument"},
           {kRendezvousClosed, "rendezvous_closed"},
           {kProtocol, "protocol"}}};
}

// Why there will be no value.
struct Failure {
  // As google.rpc.Code; never 0.
  int32_t code = 0;
  FailureReason reason = FailureReason::kUnspecified;
  // For people.
  std::string message;
  // The member where it began, when the sender only passes it on.
  std::optional<int32_t> origin;

  friend bool operator==(const Failure&, const Failure&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Failure";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "code", &Failure::code, kCheckedNumber),
                           Field(2, "reason", &Failure::reason),
                           Field(3, "message", &Failure::message, kValueBytes),
                           Field(4, "origin", &Failure::origin, kCheckedNumber));
  }
};

// Receiver to sender: more receives wait for the key, one for each want from `first` through
// `last`. The receiver numbers its wants from 1, in the order of their sending, and uses no number
// again.
struct Want {
  int64_t step = 0;
  std::string name;
  uint64_t first = 0;
  uint64_t last = 0;

  friend bool operator==(const Want&, const Want&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Want";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &Want::step, kCheckedNumber),
                           Field(2, "name", &Want::name, kIdBytes),
                           Field(3, "first", &Want::first, kCheckedNumber),
                           Field(4, "last", &Want::last, kCheckedNumber));
  }
};

// Receiver to sender: one receive fewer waits. Nothing changes if the want was answered or refused
// meanwhile.
struct Unwant {
  int64_t step = 0;
  std::string name;
  uint64_t want = 0;

  friend bool operator==(const Unwant&, const Unwant&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Unwant";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &Unwant::step, kCheckedNumber),
                           Field(2, "name", &Unwant::name, kIdBytes),
                           Field(3, "want", &Unwant::want, kCheckedNumber));
  }
};

// Sender to receiver: the next value of the key.
struct Offer {
  int64_t step = 0;
  std::string name;
  Description about;
  // As the description says; 0 when dead.
  uint64_t bytes = 0;
  // 0: none is needed, since the bytes came along and nothing is to be told.
  uint64_t lease = 0;
  // The oldest want of the key. 0: it was not wanted yet, and goes against the receiver's credit.
  uint64_t answers = 0;
  // The sender wants to hear that a receive took it.
  bool tell = false;
  // There is no value, and why.
  bool dead = false;
  std::string why_dead;
  Placement placement;

  friend bool operator==(const Offer&, const Offer&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Offer";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "step", &Offer::step, kCheckedNumber), Field(2, "name", &Offer::name, kIdBytes),
        Field(3, "about", &Offer::about), Field(4, "bytes", &Offer::bytes, kCheckedNumber),
        Field(5, "lease", &Offer::lease, kCheckedNumber),
        Field(6, "answers", &Offer::answers, kCheckedNumber), Field(7, "tell", &Offer::tell),
        Field(8, "dead", &Offer::dead), Field(9, "why_dead", &Offer::why_dead, kValueBytes),
        Field(10, "placement", &Offer::placement));
  }
};

// Receiver to sender: a receive took the value.
struct Taken {
  uint64_t lease = 0;

  friend bool operator==(const Taken&, const Taken&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Taken";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lease", &Taken::lease, kCheckedNumber));
  }
};

// Receiver to sender: the value is not looked at any more.
struct Released {
  uint64_t lease = 0;

  friend bool operator==(const Released&, const Released&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Released";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lease", &Released::lease, kCheckedNumber));
  }
};

// Receiver to sender: so much of what was offered unasked has been received.
struct Credit {
  uint64_t values = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Credit&, const Credit&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Credit";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "values", &Credit::values, kCheckedNumber),
                           Field(2, "bytes", &Credit::bytes, kCheckedNumber));
  }
};

// Sender to receiver, instead of values for wants: there will be none. For all of the key from
// `first` through `last` that were not answered before.
struct Refuse {
  int64_t step = 0;
  std::string name;
  Failure why;
  uint64_t first = 0;
  uint64_t last = 0;

  friend bool operator==(const Refuse&, const Refuse&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Refuse";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &Refuse::step, kCheckedNumber),
                           Field(2, "name", &Refuse::name, kIdBytes), Field(3, "why", &Refuse::why),
                           Field(4, "first", &Refuse::first, kCheckedNumber),
                           Field(5, "last", &Refuse::last, kCheckedNumber));
  }
};

// Either: the step has failed for everybody.
struct AbortStep {
  int64_t step = 0;
  Failure why;

  friend bool operator==(const AbortStep&, const AbortStep&) = default;
  static constexpr std::string_view kName = "lockstep.v1.AbortStep";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &AbortStep::step, kCheckedNumber),
                           Field(2, "why", &AbortStep::why));
  }
};

// Receiver to sender: nothing of the step is received any more.
struct StepClosed {
  int64_t step = 0;

  friend bool operator==(const StepClosed&, const StepClosed&) = default;
  static constexpr std::string_view kName = "lockstep.v1.StepClosed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "step", &StepClosed::step, kCheckedNumber));
  }
};

// Exactly one field.
struct PeerMessage {
  std::optional<Want> want;
  std::optional<Unwant> unwant;
  std::optional<Offer> offer;
  std::optional<Taken> taken;
  std::optional<Released> released;
  std::optional<Credit> credit;
  std::optional<Refuse> refuse;
  std::optional<AbortStep> abort_step;
  std::optional<StepClosed> step_closed;

  friend bool operator==(const PeerMessage&, const PeerMessage&) = default;
  static constexpr std::string_view kName = "lockstep.v1.PeerMessage";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "want", &PeerMessage::want), Field(2, "unwant", &PeerMessage::unwant),
        Field(3, "offer", &PeerMessage::offer), Field(4, "taken", &PeerMessage::taken),
        Field(5, "released", &PeerMessage::released), Field(6, "credit", &PeerMessage::credit),
        Field(7, "refuse", &PeerMessage::refuse), Field(8, "abort_step", &PeerMessage::abort_step),
        Field(9, "step_closed", &PeerMessage::step_closed));
  }
};

}  // namespace lockstep::wire::native
