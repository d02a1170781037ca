#include "lockstep/stock/tcpstore/wire/command_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::wire::tcpstore {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the protocol is in the byte order of its hosts, which have to agree");

// The places of more texts than this are given back when the buffer is empty.
constexpr size_t kKeptTextsMax = 1024;
constexpr size_t kBytesInText = 24;
constexpr size_t kLength = sizeof(uint64_t);

absl::Status Invalid(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

absl::Status Limit(absl::string_view what, uint64_t is, absl::string_view name, size_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("it sent ", what, " of ", is, ", over the limit ", name, " (", limit, ")"));
}

}  // namespace

// `texts` of them, or as many as a count says, `texts` at a time; then `tail` bytes. The first of
// those at a time is a key, the others are values.
struct CommandReader::Shape {
  Op op;
  absl::string_view name;
  size_t texts = 0;
  bool counted = false;
  size_t tail = 0;
};

const CommandReader::Shape* CommandReader::ShapeOf(uint8_t op) {
  static constexpr std::array<Shape, 19> kShapes = {{
      {.op = Op::kValidate, .name = "VALIDATE", .tail = 4},
      {.op = Op::kSet, .name = "SET", .texts = 2},
      {.op = Op::kCompareSet, .name = "COMPARE_SET", .texts = 3},
      {.op = Op::kGet, .name = "GET", .texts = 1},
      {.op = Op::kAdd, .name = "ADD", .texts = 1, .tail = 8},
      {.op = Op::kCheck, .name = "CHECK", .texts = 1, .counted = true},
      {.op = Op::kWait, .name = "WAIT", .texts = 1, .counted = true},
      {.op = Op::kCountKeys, .name = "GETNUMKEYS"},
      {.op = Op::kDeleteKey, .name = "DELETE_KEY", .texts = 1},
      {.op = Op::kAppend, .name = "APPEND", .texts = 2},
      {.op = Op::kMultiGet, .name = "MULTI_GET", .texts = 1, .counted = true},
      {.op = Op::kMultiSet, .name = "MULTI_SET", .texts = 2, .counted = true},
      {.op = Op::kCancelWait, .name = "CANCEL_WAIT"},
      {.op = Op::kPing, .name = "PING", .tail = 4},
      {.op = Op::kQueuePush, .name = "QUEUE_PUSH", .texts = 2},
      {.op = Op::kQueuePop, .name = "QUEUE_POP", .texts = 1},
      {.op = Op::kQueueLength, .name = "QUEUE_LEN", .texts = 1},
      {.op = Op::kListKeys, .name = "LIST_KEYS"},
      {.op = Op::kBarrier, .name = "BARRIER", .texts = 1, .tail = 8},
  }};
  return op < kShapes.size() ? &kShapes[op] : nullptr;
}

absl::Span<char> CommandReader::Prepare() {
  buffer_.Consume(std::exchange(consumed_, 0));
  if (buffer_.empty() && texts_.capacity() > kKeptTextsMax) texts_ = {};
  return buffer_.Prepare(needed_);
}

bool CommandReader::Have(size_t at_least) {
  needed_ = at_least;
  return buffer_.size() >= at_least;
}

template <class Integer>
Integer CommandReader::Read(size_t at) const {
  Integer value;
  std::memcpy(&value, buffer_.unread().data() + at, sizeof(value));
  return value;
}

absl::string_view CommandReader::Text(size_t i) const {
  return {buffer_.unread().data() + texts_[i].first, texts_[i].second};
}

absl::Status CommandReader::Foreign() const {
  const absl::string_view bytes = buffer_.unread();
  const auto first = static_cast<uint8_t>(bytes.front());
  const std::string shown = absl::CHexEscape(bytes.substr(0, kBytesInText));
  if (absl::StartsWith(bytes, "PRI * HTTP/2")) {
    return Invalid("it speaks HTTP/2, as gRPC does: the job's other address is for that");
  }
  if (absl::ascii_isupper(first)) return Invalid(absl::StrCat("it speaks HTTP: \"", shown, "\""));
  if (first == 0x16) return Invalid("it speaks TLS, which is not spoken here");
  if (const Shape* shape = ShapeOf(first); shape != nullptr && shape->op != Op::kValidate) {
    return Invalid(
        absl::StrCat("it sent ", std::string(shape->name),
                     " before VALIDATE: a client of torch before 2.0 or another program"));
  }
  if (first == 0) {
    return Invalid(absl::StrCat("its VALIDATE carries another number than torch's: \"", shown,
                                "\"; a client of torch before 2.0 or another program"));
  }
  return Invalid(absl::StrCat("it does not speak torch's protocol: \"", shown, "\""));
}

absl::StatusOr<bool> CommandReader::Validate() {
  const absl::string_view bytes = buffer_.unread();
  if (bytes.empty()) return false;
  std::array<char, 5> expected = {0};
  std::memcpy(&expected[1], &kValidateMagic, sizeof(kValidateMagic));
  const size_t compared = std::min(bytes.size(), expected.size());
  if (bytes.substr(0, compared) != absl::string_view(expected.data(), compared)) return Foreign();
  if (!Have(expected.size())) return false;
  buffer_.Consume(expected.size());
  needed_ = 1;
  validated_ = true;
  return true;
}

// The byte of the command, and the count of texts where there is one.
absl::StatusOr<bool> CommandReader::ReadHead() {
  if (!Have(1)) return false;
  const auto op = Read<uint8_t>(0);
  const Shape* shape = ShapeOf(op);
  if (shape == nullptr) return Invalid(absl::StrCat("it sent a command of number ", op));
  if (shape->op == Op::kValidate) return Invalid("it sent VALIDATE twice");
  size_t texts = shape->texts;
  size_t head = 1;
  if (shape->counted) {
    head += kLength;
    if (!Have(head)) return false;
    const auto count = Read<uint64_t>(1);
    if (count > options_.keys_per_request_max) {
      return Limit(absl::StrCat("a number of keys in ", std::string(shape->name)), count,
                   "torch_keys_per_request_max", options_.keys_per_request_max);
    }
    texts *= static_cast<size_t>(count);
  }
  shape_ = shape;
  texts_left_ = texts;
  texts_.clear();
  scanned_ = head;
  return true;
}

absl::StatusOr<bool> CommandReader::ReadTexts() {
  for (; texts_left_ > 0; --texts_left_) {
    if (!Have(scanned_ + kLength)) return false;
    const auto length = Read<uint64_t>(scanned_);
    const bool is_key = texts_.size() % shape_->texts == 0;
    const size_t most = is_key ? options_.key_bytes_max : options_.value_bytes_max;
    if (length > most) {
      return is_key ? Limit("a key's length", length, "torch_key_bytes_max", most)
                    : Limit("a value's length", length, "torch_value_bytes_max", most);
    }
    const size_t end = scanned_ + kLength + static_cast<size_t>(length);
    if (end > options_.request_bytes_max) {
      return Limit("a request's length", end, "torch_request_bytes_max",
                   options_.request_bytes_max);
    }
    if (!Have(end)) return false;
    texts_.emplace_back(scanned_ + kLength, static_cast<size_t>(length));
    scanned_ = end;
  }
  return true;
}

absl::StatusOr<bool> CommandReader::Next(machine::Command& command) {
  buffer_.Consume(std::exchange(consumed_, 0));
  if (!validated_) {
    const auto valid = Validate();
    if (!valid.ok() || !*valid) return valid;
  }
  if (shape_ == nullptr) {
    const auto head = ReadHead();
    if (!head.ok() || !*head) return head;
  }
  const auto texts = ReadTexts();
  if (!texts.ok() || !*texts) return texts;
  if (!Have(scanned_ + shape_->tail)) return false;
  Make(command);
  consumed_ = scanned_ + shape_->tail;
  shape_ = nullptr;
  needed_ = 1;
  return true;
}

machine::Keys CommandReader::AllKeys() const {
  machine::Keys keys;
  keys.reserve(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) keys.push_back(Text(i));
  return keys;
}

std::vector<machine::Set> CommandReader::AllPairs() const {
  std::vector<machine::Set> pairs;
  pairs.reserve(texts_.size() / 2);
  for (size_t i = 0; i + 1 < texts_.size(); i += 2) pairs.push_back({Text(i), Text(i + 1)});
  return pairs;
}

void CommandReader::Make(machine::Command& command) const {
  switch (shape_->op) {
    case Op::kValidate:
      break;
    case Op::kSet:
      command = machine::Set{Text(0), Text(1)};
      return;
    case Op::kCompareSet:
      command = machine::CompareSet{Text(0), Text(1), Text(2)};
      return;
    case Op::kGet:
      command = machine::Get{Text(0)};
      return;
    case Op::kAdd:
      command = machine::Add{Text(0), Read<int64_t>(scanned_)};
      return;
    case Op::kCheck:
      command = machine::Check{AllKeys()};
      return;
    case Op::kWait:
      command = machine::Wait{AllKeys()};
      return;
    case Op::kCountKeys:
      command = machine::CountKeys{};
      return;
    case Op::kDeleteKey:
      command = machine::DeleteKey{Text(0)};
      return;
    case Op::kAppend:
      command = machine::Append{Text(0), Text(1)};
      return;
    case Op::kMultiGet:
      command = machine::MultiGet{AllKeys()};
      return;
    case Op::kMultiSet:
      command = machine::MultiSet{AllPairs()};
      return;
    case Op::kCancelWait:
      command = machine::CancelWait{};
      return;
    case Op::kPing:
      command = machine::Ping{Read<uint32_t>(scanned_)};
      return;
    case Op::kQueuePush:
      command = machine::QueuePush{Text(0), Text(1)};
      return;
    case Op::kQueuePop:
      command = machine::QueuePop{Text(0)};
      return;
    case Op::kQueueLength:
      command = machine::QueueLength{Text(0)};
      return;
    case Op::kListKeys:
      command = machine::ListKeys{};
      return;
    case Op::kBarrier:
      command = machine::Barrier{Text(0), Read<int64_t>(scanned_)};
      return;
  }
  LOCKSTEP_CHECK(false);
}

}  // namespace lockstep::wire::tcpstore
