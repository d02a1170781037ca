#include "lockstep/wire/native/from_answer.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/from_view.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/utf8.h"
#include "protozero/pbf_writer.hpp"
#include "protozero/varint.hpp"

namespace lockstep::wire::native {
namespace {

// Below this, encoding costs less than looking whether it was done before.
constexpr size_t kWorthSharingBytes = 4096;

// --- Entries, written from the machine's own strings, so that a big value is copied once ---

// Of a field whose number is below 16.
size_t VarintFieldSize(uint64_t value) { return 1 + protozero::length_of_varint(value); }
size_t TextFieldSize(size_t bytes) { return 1 + protozero::length_of_varint(bytes) + bytes; }

// As Entry, and as KeyChange, whose fields have the same numbers.
void AppendEntry(protozero::pbf_writer& out, std::string& bytes, uint32_t number,
                 const coord::KeyValue& entry, bool empty_value_is_said) {
  const bool has_value = entry.value != nullptr && (empty_value_is_said || !entry.value->empty());
  size_t size = 0;
  if (!entry.key.empty()) size += TextFieldSize(entry.key.size());
  if (has_value) size += TextFieldSize(entry.value->size());
  if (entry.revision != 0) size += VarintFieldSize(static_cast<uint64_t>(entry.revision));
  // In steps, since to reserve exactly each time would copy a list of many again and again.
  if (size > kWorthSharingBytes && bytes.capacity() - bytes.size() < size + 32) {
    bytes.reserve(std::max(bytes.size() + size + 32, bytes.capacity() * 2));
  }
  protozero::add_varint_to_buffer(&bytes, number << 3 | 2);
  protozero::add_varint_to_buffer(&bytes, size);
  if (!entry.key.empty()) out.add_string(1, entry.key);
  if (has_value) out.add_bytes(2, *entry.value);
  if (entry.revision != 0) out.add_int64(3, entry.revision);
}

std::string EncodeEntry(const coord::KeyValue& entry) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  AppendEntry(out, bytes, 1, entry, false);
  return bytes;
}

std::string EncodeNumber(const coord::KeyValue& entry) {
  IncrementKeyReply reply{.value = 0, .revision = entry.revision};
  LOCKSTEP_CHECK(absl::SimpleAtoi(*entry.value, &reply.value));
  return native::Encode(reply);
}

std::string EncodeList(RequestKind kind, const coord::KeysListed& answer) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  for (const coord::KeyValue& entry : answer.entries) AppendEntry(out, bytes, 1, entry, false);
  if (kind == KindOf<GetKeys>::kKind) return bytes;
  if (answer.revision != 0) out.add_int64(2, answer.revision);
  if (answer.more) out.add_bool(3, true);
  return bytes;
}

std::string EncodeChanges(const coord::KeysChanged& answer) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  for (const coord::KeyValue& change : answer.changes) AppendEntry(out, bytes, 1, change, true);
  if (answer.revision != 0) out.add_int64(2, answer.revision);
  if (answer.snapshot) out.add_bool(3, true);
  return bytes;
}

std::string EncodeSwap(const coord::KeySwapped& answer) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  if (answer.swapped) out.add_bool(1, true);
  if (answer.entry) AppendEntry(out, bytes, 2, *answer.entry, false);
  return bytes;
}

// --- Everything else, by its message ---

std::string EncodeBarrier(const coord::BarrierPassed& answer) {
  BarrierReply reply{.counter = answer.counter, .values = {}};
  if (answer.values != nullptr) {
    for (const coord::MemberValue& value : *answer.values) {
      reply.values.push_back({value.member.value(), {value.value}});
    }
  }
  return native::Encode(reply);
}

std::string EncodeBarriers(const coord::BarriersListed& answer) {
  ListBarriersReply reply{.open = static_cast<int64_t>(answer.open)};
  for (const coord::BarrierView& barrier : answer.barriers) {
    reply.barriers.push_back(FromBarrier(answer.at, barrier));
  }
  return native::Encode(reply);
}

std::string EncodeAlive(const std::vector<coord::AliveMember>& members) {
  GetAliveMembersReply reply;
  for (const coord::AliveMember& member : members) {
    reply.members.push_back({member.member.value(), member.incarnation.value()});
  }
  return native::Encode(reply);
}

std::string EncodeJoined(const coord::Joined& answer) {
  return native::Encode(JoinJobReply{.member = answer.member.value(),
                                     .role = ToUtf8(answer.role),
                                     .index = answer.index,
                                     .name = ToUtf8(answer.name),
                                     .attempt = answer.attempt,
                                     .service_incarnation = answer.service.value(),
                                     .size = answer.size,
                                     .recoverable = answer.recoverable});
}

// Facts for programs, in the order of their names; docs/errors.md lists them.
std::string EncodeError(const coord::Error& error) {
  ErrorReply reply = {.code = static_cast<int32_t>(error.code),
                      .reason = std::string(coord::ReasonName(error.reason)),
                      .message = ToUtf8(error.message),
                      .details = {}};
  if (error.barrier) {
    reply.details.push_back({.name = "barrier", .value = ToUtf8(error.barrier->id)});
    reply.details.push_back({.name = "counter", .value = absl::StrCat(error.barrier->counter)});
  }
  if (error.origin) {
    reply.details.push_back({.name = "member", .value = absl::StrCat(error.origin->value())});
  }
  if (!error.missing.empty()) {
    reply.details.push_back({.name = "missing", .value = ToUtf8(error.missing)});
  }
  return native::Encode(reply);
}

// The answers that only one caller gets, or that are small.
struct OwnAnswer {
  RequestKind kind;

  std::string operator()(const coord::KeyRead& answer) const {
    const bool number = kind == KindOf<IncrementKey>::kKind || kind == KindOf<MaxKey>::kKind;
    return number ? EncodeNumber(answer.entry) : EncodeEntry(answer.entry);
  }
  std::string operator()(const coord::KeysListed& answer) const { return EncodeList(kind, answer); }
  std::string operator()(const coord::KeyWritten& answer) const {
    return native::Encode(SetKeyReply{.revision = answer.revision});
  }
  std::string operator()(const coord::KeySwapped& answer) const { return EncodeSwap(answer); }
  std::string operator()(const coord::KeysDeleted& answer) const {
    return native::Encode(DeleteKeyReply{.deleted = answer.deleted, .revision = answer.revision});
  }
  std::string operator()(const coord::KeysChanged& answer) const { return EncodeChanges(answer); }
  std::string operator()(const coord::BarrierPassed& answer) const { return EncodeBarrier(answer); }
  std::string operator()(const coord::BarriersListed& answer) const {
    return EncodeBarriers(answer);
  }
  std::string operator()(const coord::IndexAgreed& answer) const {
    return native::Encode(AgreeOnIndexReply{.counter = answer.counter, .index = answer.index});
  }
  std::string operator()(const coord::PreemptionNoted& answer) const {
    return native::Encode(NotifyPreemptionReply{.preemption = answer.preemption});
  }
  std::string operator()(const coord::SessionOpened& answer) const {
    return native::Encode(OpenSessionReply{
        .resumed = answer.resumed, .attempt = answer.attempt, .size = answer.size});
  }
  std::string operator()(const coord::Joined& answer) const { return EncodeJoined(answer); }
  // Success that says nothing.
  std::string operator()(const std::monostate&) const { return {}; }
  // What many callers are told at once: ReplyEncoder has encoded it once for all of them.
  std::string operator()(const coord::AliveMembers&) const { return {}; }
  std::string operator()(const coord::JobChanged&) const { return {}; }
  std::string operator()(const coord::PreemptionChanged&) const { return {}; }
  // What only stock clients are told.
  std::string operator()(const coord::Registered&) const { return {}; }
  std::string operator()(const coord::HeartbeatTaken&) const { return {}; }
  std::string operator()(const coord::MembersWatched&) const { return {}; }
};

}  // namespace

EntriesEncoder::EntriesEncoder(RequestKind kind, coord::Answer answer)
    : kind_(kind), answer_(std::move(answer)) {
  if (auto* listed = std::get_if<coord::KeysListed>(&answer_)) entries_.swap(listed->entries);
  if (auto* changed = std::get_if<coord::KeysChanged>(&answer_)) entries_.swap(changed->changes);
}

bool EntriesEncoder::EncodeSome(std::string& out) {
  const bool changes = std::holds_alternative<coord::KeysChanged>(answer_);
  const size_t end = std::min(entries_.size(), next_ + kEntriesPerStep);
  const size_t full = out.size() + kBytesPerStep;
  {
    protozero::pbf_writer writer(out);
    while (next_ < end && out.size() < full) {
      const coord::KeyValue entry = std::move(entries_[next_++]);
      AppendEntry(writer, out, 1, entry, changes);
    }
  }
  if (next_ < entries_.size()) return true;
  // What is left of the answer, behind its entries.
  out += std::visit(OwnAnswer{kind_}, answer_);
  return false;
}

template <class Source, class Function>
EncodedReply ReplyEncoder::Share(Kept& kept, const std::shared_ptr<Source>& source,
                                 RequestKind kind, int64_t number, const std::string& text,
                                 const Function& encode) {
  const bool same = kept.kind == kind && kept.number == number && kept.text == text &&
                    kept.source.lock().get() == source.get();
  EncodedReply reply;
  if (same) reply.shared = kept.bytes.lock();
  if (reply.shared == nullptr) {
    reply.shared = std::make_shared<const std::string>(encode());
    kept = {source, kind, number, text, reply.shared};
  }
  return reply;
}

EncodedReply ReplyEncoder::Encode(Time now, RequestKind kind, const coord::Reply& reply) {
  static const std::string kNoText;
  if (reply.error != nullptr) {
    EncodedReply encoded =
        Share(error_, reply.error, 0, 0, kNoText, [&] { return EncodeError(*reply.error); });
    encoded.failed = true;
    return encoded;
  }
  if (const auto* passed = std::get_if<coord::BarrierPassed>(&reply.answer);
      passed != nullptr && passed->values != nullptr) {
    return Share(answer_, passed->values, kind, passed->counter, kNoText,
                 [&] { return EncodeBarrier(*passed); });
  }
  if (const auto* changed = std::get_if<coord::JobChanged>(&reply.answer)) {
    return Share(answer_, changed->change, kind, 0, kNoText,
                 [&] { return native::Encode(FromChange(now, *changed->change)); });
  }
  if (const auto* changed = std::get_if<coord::PreemptionChanged>(&reply.answer)) {
    return Share(answer_, changed->state, kind, 0, kNoText, [&] {
      return native::Encode(WatchPreemptionReply{.state = FromState(now, *changed->state)});
    });
  }
  if (const auto* alive = std::get_if<coord::AliveMembers>(&reply.answer)) {
    return Share(answer_, alive->members, kind, 0, kNoText,
                 [&] { return EncodeAlive(*alive->members); });
  }
  if (const auto* read = std::get_if<coord::KeyRead>(&reply.answer);
      read != nullptr && read->entry.value->size() >= kWorthSharingBytes) {
    return Share(answer_, read->entry.value, kind, read->entry.revision, read->entry.key,
                 [&] { return OwnAnswer{kind}(*read); });
  }
  if (const auto* seen = std::get_if<coord::KeysChanged>(&reply.answer);
      seen != nullptr && seen->changes.size() == 1 && !seen->snapshot &&
      seen->changes.front().revision == seen->revision && seen->changes.front().value != nullptr &&
      seen->changes.front().value->size() >= kWorthSharingBytes) {
    return Share(answer_, seen->changes.front().value, kind, seen->revision,
                 seen->changes.front().key, [&] { return EncodeChanges(*seen); });
  }
  return {.failed = false, .bytes = std::visit(OwnAnswer{kind}, reply.answer), .shared = nullptr};
}

}  // namespace lockstep::wire::native
