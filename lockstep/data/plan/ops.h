// The table of operators: what each takes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::plan {

enum class OpKind : uint8_t { kSource, kPlan, kSegment };

enum class Op : uint8_t {
  kRange,
  kArray,
  kNpy,
  kWindows,
  kRecords,
  kLines,
  kTfRecord,
  kFill,
  kShuffle,
  kRepeat,
  kTake,
  kSkip,
  kConcat,
  kZip,
  kMix,
  kMap,
  kFilter,
  kMapPython,
  kBatch,
};

// An attribute that an operator takes.
struct AttrRule {
  std::string_view name;
  bool required = false;
  Attr otherwise;  // its type is the attribute's
};

// What a node of this operator has to look like.
struct OpRule {
  Op op;
  std::string_view name;
  OpKind kind;
  size_t inputs_min;
  size_t inputs_max;
  bool reads_files;
  std::vector<AttrRule> attrs;
};

// Null: there is no such operator.
const OpRule* FindOp(std::string_view name);

// A node whose attributes were held against the table. Getters give defaults, and must name an
// attribute of the operator with its type.
class CheckedNode {
 public:
  // INVALID_ARGUMENT with the node's `where`. `last`: it is the root.
  static absl::StatusOr<CheckedNode> Make(const Node& node, bool last);

  const Node& node() const { return *node_; }    // must outlive this
  const OpRule& rule() const { return *rule_; }  // of the table, which lives for ever
  Op op() const { return rule_->op; }            // which picks the code that runs the node
  // The node's value, or the operator's default.
  const Attr& Get(std::string_view name) const;
  template <class T>
  // The same with its type: T is one of Attr's.
  const T& As(std::string_view name) const {
    return std::get<T>(Get(name));
  }
  int64_t Int(std::string_view name) const { return As<int64_t>(name); }  // of an int64
  // Of a text, or of bytes.
  const std::string& Text(std::string_view name) const { return As<std::string>(name); }

 private:
  CheckedNode(const Node& node, const OpRule& rule) : node_(&node), rule_(&rule) {}
  const Node* node_;
  const OpRule* rule_;
};

// "train.py:12", or "node 3" when the definition does not say where it is from.
std::string WhereOf(const Node& node);
// INVALID_ARGUMENT, kDefinitionInvalid: "train.py:12: batch: <what>".
absl::Status InvalidNode(const Node& node, const std::string& what);

}  // namespace lockstep::plan
