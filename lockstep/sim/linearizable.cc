#include "lockstep/sim/linearizable.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::sim {
namespace {

using Kind = KeyOperation::Kind;
using Value = std::optional<std::string>;

std::string Show(const Value& value) { return value ? absl::StrCat("'", *value, "'") : "none"; }

// What the operation does to the value, and what it would be answered.
struct Outcome {
  Value after;
  bool done = true;
  Value result;
};

Outcome Do(const KeyOperation& op, const Value& before) {
  int64_t number = 0;
  if (before && !absl::SimpleAtoi(*before, &number)) number = 0;
  switch (op.kind) {
    case Kind::kSet:
      return {op.value, true, std::nullopt};
    case Kind::kSetIfAbsent:
      return before ? Outcome{before, false, std::nullopt} : Outcome{op.value, true, std::nullopt};
    case Kind::kCompareAndSet:
      return before == op.expected ? Outcome{op.value, true, op.value}
                                   : Outcome{before, false, before};
    case Kind::kAdd: {
      const std::string sum = absl::StrCat(number + op.number);
      return {sum, true, sum};
    }
    case Kind::kMax: {
      const std::string greatest = absl::StrCat(before ? std::max(number, op.number) : op.number);
      return {greatest, true, greatest};
    }
    case Kind::kDelete:
      return {std::nullopt, before.has_value(), std::nullopt};
    case Kind::kRead:
      return {before, before.has_value(), before};
  }
  LOCKSTEP_CHECK(false);
}

class Search {
 public:
  explicit Search(const std::vector<KeyOperation>& operations) : operations_(operations) {}

  bool Run() { return From(0, std::nullopt); }

 private:
  // `happened` has a bit for each operation that did; the value is what they made of it.
  bool From(uint64_t happened, const Value& value) {
    if (!seen_.emplace(happened, value).second) return false;
    // What is still owed an answer that was given: nothing asked after the earliest such answer can
    // come next.
    int64_t first_answer = std::numeric_limits<int64_t>::max();
    bool owed = false;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if ((happened >> i & 1) != 0 || !operations_[i].answered) continue;
      owed = true;
      first_answer = std::min(first_answer, *operations_[i].answered);
    }
    if (!owed) return true;
    for (size_t i = 0; i < operations_.size(); ++i) {
      const KeyOperation& op = operations_[i];
      if ((happened >> i & 1) != 0 || op.asked > first_answer) continue;
      const Outcome outcome = Do(op, value);
      if (op.answered && (outcome.done != op.done || outcome.result != op.result)) continue;
      if (From(happened | uint64_t{1} << i, outcome.after)) return true;
    }
    return false;
  }

  const std::vector<KeyOperation>& operations_;
  std::set<std::pair<uint64_t, Value>> seen_;
};

}  // namespace

std::string Describe(const KeyOperation& op) {
  static constexpr const char* kNames[] = {
      "set", "set if absent", "compare and set", "add", "max", "delete", "read"};
  std::string text = absl::StrCat(op.who, " ", kNames[static_cast<size_t>(op.kind)]);
  if (op.kind == Kind::kCompareAndSet) absl::StrAppend(&text, " ", Show(op.expected), " to");
  if (!op.value.empty()) absl::StrAppend(&text, " '", op.value, "'");
  if (op.number != 0) absl::StrAppend(&text, " ", op.number);
  absl::StrAppend(&text, " asked ", op.asked);
  if (!op.answered) return absl::StrCat(text, ", never answered");
  absl::StrAppend(&text, ", answered ", *op.answered, op.done ? " done" : " not done");
  if (op.result) absl::StrAppend(&text, ": ", Show(op.result));
  return text;
}

std::string CheckLinearizable(const std::vector<KeyOperation>& operations) {
  LOCKSTEP_CHECK(operations.size() <= kKeyOperationsMax);
  if (Search(operations).Run()) return "";
  std::string text = "these operations on one key fit no order:";
  for (const KeyOperation& op : operations) absl::StrAppend(&text, "\n    ", Describe(op));
  return text;
}

}  // namespace lockstep::sim
