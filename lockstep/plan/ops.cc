#include "lockstep/plan/ops.h"

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/plan/error.h"

namespace lockstep::plan {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

AttrRule Needs(std::string_view name, Attr of_type) { return {name, true, std::move(of_type)}; }
AttrRule May(std::string_view name, Attr otherwise) { return {name, false, std::move(otherwise)}; }

std::vector<OpRule> MakeTable() {
  constexpr size_t kMany = std::numeric_limits<size_t>::max();
  const std::string text;
  const int64_t whole = 0;
  // -1, which is no stride: as long as the window.
  std::vector<OpRule> table = {
      {Op::kRange,
       "range",
       OpKind::kSource,
       0,
       0,
       false,
       {May("start", int64_t{0}), Needs("stop", whole), May("step", int64_t{1})}},
      {Op::kArray,
       "array",
       OpKind::kSource,
       0,
       0,
       false,
       {Needs("names", Strings()), Needs("dtypes", Strings()), Needs("shapes", Strings()),
        Needs("data", Strings())}},
      {Op::kNpy,
       "npy",
       OpKind::kSource,
       0,
       0,
       true,
       {Needs("paths", Strings()), May("spec", text)}},
      {Op::kWindows,
       "windows",
       OpKind::kSource,
       0,
       0,
       true,
       {Needs("paths", Strings()), Needs("dtype", text), Needs("length", whole),
        May("stride", int64_t{-1})}},
      {Op::kRecords,
       "records",
       OpKind::kSource,
       0,
       0,
       true,
       {Needs("paths", Strings()), Needs("bytes", whole)}},
      {Op::kLines,
       "lines",
       OpKind::kSource,
       0,
       0,
       true,
       {Needs("paths", Strings()), May("text", true)}},
      {Op::kTfRecord, "tfrecord", OpKind::kSource, 0, 0, true, {Needs("paths", Strings())}},
      {Op::kFill,
       "fill",
       OpKind::kSource,
       0,
       0,
       false,
       {Needs("count", whole), Needs("dtype", text), Needs("shape", Ints()),
        May("seed", int64_t{0})}},
      {Op::kShuffle,
       "shuffle",
       OpKind::kPlan,
       1,
       1,
       false,
       {Needs("seed", whole), May("reshuffle", true)}},
      {Op::kRepeat, "repeat", OpKind::kPlan, 1, 1, false, {May("count", int64_t{-1})}},
      {Op::kTake, "take", OpKind::kPlan, 1, 1, false, {Needs("count", whole)}},
      {Op::kSkip, "skip", OpKind::kPlan, 1, 1, false, {Needs("count", whole)}},
      {Op::kConcat, "concat", OpKind::kPlan, 2, kMany, false, {}},
      {Op::kZip, "zip", OpKind::kPlan, 2, kMany, false, {May("names", Strings())}},
      {Op::kMix, "mix", OpKind::kPlan, 2, kMany, false, {Needs("weights", Ints())}},
      {Op::kMap, "map", OpKind::kSegment, 1, 1, false, {Needs("expression", text)}},
      {Op::kFilter, "filter", OpKind::kSegment, 1, 1, false, {Needs("expression", text)}},
      {Op::kMapPython,
       "map_python",
       OpKind::kSegment,
       1,
       1,
       false,
       {Needs("function", text), Needs("spec", text), May("timeout_ms", int64_t{60'000})}},
      {Op::kBatch,
       "batch",
       OpKind::kSegment,
       1,
       1,
       false,
       {Needs("count", whole), May("drop_remainder", false)}},
  };
  for (OpRule& rule : table) {
    if (rule.kind == OpKind::kPlan || rule.op == Op::kBatch) continue;
    rule.attrs.push_back(May("on_error", std::string("fail")));
    rule.attrs.push_back(May("error_budget", int64_t{-1}));
  }
  return table;
}

const std::vector<OpRule>& Table() {
  static const auto* const table = new std::vector<OpRule>(MakeTable());
  return *table;
}

const AttrRule* FindAttr(const OpRule& rule, std::string_view name) {
  for (const AttrRule& attr : rule.attrs) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

std::string TypeName(const Attr& attr) {
  constexpr const char* kNames[] = {"a whole number",          "a float",
                                    "true or false",           "a text",
                                    "a list of whole numbers", "a list of texts"};
  return kNames[attr.index()];
}

const AttrRule& SegmentRule() {
  static const auto* const rule = new AttrRule(May("segment", int64_t{0}));
  return *rule;
}

absl::Status CheckAttr(const Node& node, const OpRule& rule, const std::string& name,
                       const Attr& value, bool last) {
  const AttrRule* attr = FindAttr(rule, name);
  if (attr == nullptr && name == "segment") {
    if (!last) {
      return InvalidNode(node, "segment belongs to the last operator: put it there");
    }
    attr = &SegmentRule();
  }
  if (attr == nullptr) {
    return InvalidNode(
        node, absl::StrCat("it has no '", name, "'; it takes ",
                           absl::StrJoin(rule.attrs, ", ", [](std::string* out, const AttrRule& a) {
                             absl::StrAppend(out, std::string(a.name));
                           })));
  }
  if (attr->otherwise.index() != value.index()) {
    return InvalidNode(node, absl::StrCat(name, " must be ", TypeName(attr->otherwise), ", not ",
                                          TypeName(value)));
  }
  return absl::OkStatus();
}

}  // namespace

const OpRule* FindOp(std::string_view name) {
  for (const OpRule& rule : Table()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

std::string WhereOf(const Node& node) {
  return node.where.empty() ? absl::StrCat("node ", node.id) : node.where;
}

absl::Status InvalidNode(const Node& node, const std::string& what) {
  return Invalid(absl::StrCat(WhereOf(node), ": ", node.op, ": ", what));
}

absl::StatusOr<CheckedNode> CheckedNode::Make(const Node& node, bool last) {
  const OpRule* rule = FindOp(node.op);
  if (rule == nullptr) {
    return InvalidNode(
        node, absl::StrCat("there is no such operator; there are ",
                           absl::StrJoin(Table(), ", ", [](std::string* out, const OpRule& r) {
                             absl::StrAppend(out, std::string(r.name));
                           })));
  }
  if (node.inputs.size() < rule->inputs_min || node.inputs.size() > rule->inputs_max) {
    return InvalidNode(node, absl::StrCat("it takes ",
                                          rule->inputs_max == 0   ? "no input"
                                          : rule->inputs_max == 1 ? "one input"
                                                                  : "two inputs or more",
                                          ", and was given ", node.inputs.size()));
  }
  for (const auto& [name, value] : node.attrs) {
    if (absl::Status status = CheckAttr(node, *rule, name, value, last); !status.ok()) {
      return status;
    }
  }
  for (const AttrRule& attr : rule->attrs) {
    if (attr.required && !node.attrs.contains(std::string(attr.name))) {
      return InvalidNode(node, absl::StrCat("it needs '", std::string(attr.name), "'"));
    }
  }
  CheckedNode checked(node, *rule);
  if (FindAttr(*rule, "on_error") != nullptr) {
    const std::string& policy = checked.Text("on_error");
    if (policy != "fail" && policy != "skip") {
      return InvalidNode(node, "on_error must be 'fail' or 'skip'");
    }
    if (checked.Int("error_budget") < -1) {
      return InvalidNode(node, "error_budget must be 0 or more, or -1 for any number");
    }
  }
  if (last && checked.Int("segment") < 0) {
    return InvalidNode(node, "segment must be 1 or more, or 0 to choose for me");
  }
  return checked;
}

const Attr& CheckedNode::Get(std::string_view name) const {
  if (const auto found = node_->attrs.find(std::string(name)); found != node_->attrs.end()) {
    return found->second;
  }
  const AttrRule* attr = FindAttr(*rule_, name);
  if (attr == nullptr && name == "segment") attr = &SegmentRule();
  LOCKSTEP_CHECK(attr != nullptr);
  return attr->otherwise;
}

}  // namespace lockstep::plan
