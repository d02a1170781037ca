#include "lockstep/stock/tcpstore/wire/outbox.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include "lockstep/base/check.h"

namespace lockstep::wire::tcpstore {
namespace machine = ::lockstep::tcpstore;
namespace {

// What the last piece holds of its own before another one begins.
constexpr size_t kPieceBytes = size_t{256} << 10;
// An empty outbox keeps no more than this.
constexpr size_t kKeptBytesMax = size_t{4} << 10;
static_assert(kKeptBytesMax < kPieceBytes);
constexpr char kCancelled = 1;

}  // namespace

Outbox::Piece& Outbox::Last() {
  if (pieces_.empty() || pieces_.back().shared || pieces_.back().own.size() >= kPieceBytes) {
    own_bytes_ += pieces_.emplace_back().own.capacity();
  }
  return pieces_.back();
}

void Outbox::AppendOwn(const char* bytes, size_t size) {
  std::string& own = Last().own;
  own_bytes_ -= own.capacity();
  own.append(bytes, size);
  own_bytes_ += own.capacity();
  bytes_ += size;
}

template <class Integer>
void Outbox::PutInteger(Integer value) {
  AppendOwn(reinterpret_cast<const char*>(&value), sizeof(value));
}

void Outbox::PutText(absl::string_view text) {
  PutInteger(static_cast<uint64_t>(text.size()));
  AppendOwn(text.data(), text.size());
}

void Outbox::PutValue(const machine::ValuePtr& value) {
  if (!value) return PutText("");
  if (value->size() < machine::kSharedBytesMin) return PutText(*value);
  PutInteger(static_cast<uint64_t>(value->size()));
  // The store may give it up before it is sent. The first of those who send it counts all of it,
  // each further one less; beside them it is in the store and in the answer.
  Share(value, value->size() / static_cast<size_t>(std::max(1L, value.use_count() - 1)));
}

void Outbox::Share(const machine::ValuePtr& value, size_t cost) {
  Piece& piece = Last();
  piece.shared = value;
  piece.cost = cost;
  shared_cost_ += cost;
  bytes_ += value->size();
}

void Outbox::DropFront() {
  own_bytes_ -= pieces_.front().own.capacity();
  shared_cost_ -= pieces_.front().cost;
  pieces_.pop_front();
}

void Outbox::Push(const machine::Answer& answer) {
  std::visit(
      [this](const auto& is) {
        using Is = std::decay_t<decltype(is)>;
        if constexpr (std::is_same_v<Is, machine::Readiness>) {
          PutInteger(static_cast<uint8_t>(is));
        } else if constexpr (std::is_same_v<Is, machine::WaitCancelled>) {
          PutInteger(kCancelled);
        } else if constexpr (std::is_same_v<Is, machine::Number>) {
          PutInteger(is.value);
        } else if constexpr (std::is_same_v<Is, machine::Echo>) {
          PutInteger(is.number);
        } else if constexpr (std::is_same_v<Is, machine::Value>) {
          PutValue(is.value);
        } else if constexpr (std::is_same_v<Is, machine::SentValue>) {
          PutText(is.value);
        } else if constexpr (std::is_same_v<Is, machine::Values>) {
          for (const machine::ValuePtr& value : is.values) PutValue(value);
        } else if constexpr (std::is_same_v<Is, machine::Popped>) {
          PutInteger(is.length);
          if (is.length > 0) PutValue(is.value);
        } else if constexpr (std::is_same_v<Is, machine::Encoded>) {
          if (is.bytes) Share(is.bytes, is.bytes->size());
        } else {
          static_assert(std::is_same_v<Is, machine::KeyNames>);
          PutInteger(static_cast<int64_t>(is.count));
          // They are nobody else's.
          for (const machine::ValuePtr& slice : is.packed) Share(slice, slice->size());
        }
      },
      answer);
}

std::string Encode(const machine::Answer& answer) {
  Outbox one;
  one.Push(answer);
  std::vector<absl::string_view> pieces;
  one.Peek(std::numeric_limits<size_t>::max(), pieces);
  std::string bytes;
  bytes.reserve(one.bytes());
  for (const absl::string_view piece : pieces) bytes.append(piece.data(), piece.size());
  return bytes;
}

void Outbox::Peek(size_t pieces_max, std::vector<absl::string_view>& pieces) const {
  pieces.clear();
  size_t skip = sent_;
  const auto add = [&](absl::string_view bytes) {
    const size_t skipped = std::min(skip, bytes.size());
    skip -= skipped;
    bytes.remove_prefix(skipped);
    if (!bytes.empty() && pieces.size() < pieces_max) pieces.push_back(bytes);
  };
  for (const Piece& piece : pieces_) {
    if (pieces.size() >= pieces_max) return;
    add(piece.own);
    if (piece.shared) add(*piece.shared);
  }
}

void Outbox::Sent(size_t bytes) {
  LOCKSTEP_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  sent_ += bytes;
  sent_in_all_ += bytes;
  while (pieces_.size() > 1 && sent_ >= pieces_.front().size()) {
    sent_ -= pieces_.front().size();
    DropFront();
  }
  if (bytes_ > 0 || pieces_.empty()) return;
  sent_ = 0;
  // The last piece stays for the next answer, with the room that it has.
  Piece& kept = pieces_.front();
  shared_cost_ -= std::exchange(kept.cost, 0);
  kept.shared = nullptr;
  kept.own.clear();
  if (kept.own.capacity() <= kKeptBytesMax) return;
  own_bytes_ -= kept.own.capacity();
  kept.own.shrink_to_fit();
  own_bytes_ += kept.own.capacity();
}

}  // namespace lockstep::wire::tcpstore
