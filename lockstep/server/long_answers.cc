#include "lockstep/server/long_answers.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/from_answer.h"
#include "lockstep/wire/native/from_view.h"

namespace lockstep::server {
namespace {

// Pieces are at least this long, but for the last: fewer and longer ones would take longer to copy
// than a step should.
constexpr size_t kPieceBytes = size_t{128} << 10;
static_assert(kPieceBytes < LongAnswers::kBytesMax);
static_assert(LongAnswers::kBytesMax < LongAnswers::kPendingBytesMax);

size_t CostOf(const std::vector<coord::KeyValue>& entries) {
  size_t bytes = entries.size() * sizeof(coord::KeyValue);
  for (const coord::KeyValue& entry : entries) {
    bytes += entry.key.size() + (entry.value ? entry.value->size() : 0);
  }
  return bytes;
}

size_t CostOf(const coord::Answer& answer) {
  if (const auto* listed = std::get_if<coord::KeysListed>(&answer)) return CostOf(listed->entries);
  if (const auto* changed = std::get_if<coord::KeysChanged>(&answer)) {
    return CostOf(changed->changes);
  }
  return 0;
}

bool IsLong(const std::vector<coord::KeyValue>& entries) {
  if (entries.size() > LongAnswers::kEntriesMax) return true;
  size_t bytes = 0;
  for (const coord::KeyValue& entry : entries) bytes += entry.value ? entry.value->size() : 0;
  return entries.size() > 1 && bytes > LongAnswers::kBytesMax;
}

bool IsLong(const coord::Reply& reply) {
  if (reply.error != nullptr) return false;
  const auto* listed = std::get_if<coord::KeysListed>(&reply.answer);
  const auto* changed = std::get_if<coord::KeysChanged>(&reply.answer);
  return (listed != nullptr && IsLong(listed->entries)) ||
         (changed != nullptr && IsLong(changed->changes));
}

}  // namespace

void LongAnswers::Take(std::vector<coord::Reply>& replies) {
  auto kept = replies.begin();
  for (auto reply = replies.begin(); reply != replies.end(); ++reply) {
    if (TakeIfLong(*reply)) continue;
    if (kept != reply) *kept = std::move(*reply);
    ++kept;
  }
  replies.erase(kept, replies.end());
  while (making_.size() > 1 && bytes_ > kPendingBytesMax) Step();
  if (!making_.empty()) work_.Begin();
}

bool LongAnswers::TakeIfLong(coord::Reply& reply) {
  if (const auto* changed = std::get_if<coord::JobChanged>(&reply.answer);
      changed != nullptr && changed->change != nullptr && !changed->change->later.empty()) {
    const auto& change = changed->change;
    const bool same = !making_.empty() && making_.back().change == change;
    if (!same) {
      const size_t cost = change->later.size() * sizeof(MemberIndex);
      Add({.calls = {}, .change = change, .cost = cost, .encode = EncodeMembers(change)});
    }
    making_.back().calls.push_back(reply.call);
    return true;
  }
  if (!IsLong(reply)) return false;
  const std::optional<wire::native::RequestKind> kind = source_.kind(reply.call);
  if (!kind) return false;
  Add({.calls = {reply.call},
       .change = nullptr,
       .cost = CostOf(reply.answer),
       .encode = [entries = wire::native::EntriesEncoder(*kind, std::move(reply.answer))](
                     std::string& out) mutable { return entries.EncodeSome(out); }});
  return true;
}

void LongAnswers::Add(Making making) {
  bytes_ += making.cost;
  making_.push_back(std::move(making));
}

LongAnswers::Encode LongAnswers::EncodeMembers(std::shared_ptr<const coord::JobChange> change) {
  return [this, change = std::move(change), next = size_t{0}](std::string& out) mutable {
    const Time now = runtime::MonotonicNow();
    if (next == 0) out += wire::native::Encode(wire::native::FromChange(now, *change));
    // Encoded, a message of nothing but members is what they add to one that has all the rest.
    wire::native::WatchJobReply part;
    const size_t end = std::min(change->later.size(), next + kMembersPerStep);
    for (; next < end; ++next) {
      part.members.push_back(
          wire::native::FromMember(now, source_.member(now, change->later[next])));
    }
    out += wire::native::Encode(part);
    return next < change->later.size();
  };
}

bool LongAnswers::Step() {
  if (making_.empty()) return false;
  Making& making = making_.front();
  if (making.bytes == nullptr) {
    if (making.pieces.empty() || making.pieces.back().size() >= kPieceBytes) {
      making.pieces.emplace_back();
    }
    if (making.encode(making.pieces.back())) return true;
    size_t size = 0;
    for (const std::string& piece : making.pieces) size += piece.size();
    making.bytes = std::make_shared<std::string>();
    making.bytes->reserve(size);
    return true;
  }
  if (making.next_piece < making.pieces.size()) {
    std::string& piece = making.pieces[making.next_piece++];
    *making.bytes += piece;
    std::string().swap(piece);
    return true;
  }
  // They may ask again at once.
  const Making done = std::move(making);
  making_.pop_front();
  LOCKSTEP_DCHECK(bytes_ >= done.cost);
  bytes_ -= done.cost;
  LOCKSTEP_DCHECK(!making_.empty() || bytes_ == 0);
  for (const CallId call : done.calls) source_.answer(call, done.bytes);
  return !making_.empty();
}

}  // namespace lockstep::server
