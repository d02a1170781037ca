#include "lockstep/data/plan/ops.h"

#include <iterator>
#include <limits>
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::plan {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

AttrRule Needs(std::string_view name, Attr of_type) { return {name, true, std::move(of_type)}; }
AttrRule May(std::string_view name, Attr otherwise) { return {name, false, std::move(otherwise)}; }

// For their types.
const std::string kText;
const int64_t kWhole = 0;
constexpr size_t kMany = std::numeric_limits<size_t>::max();

std::vector<OpRule> Sources() {
  const auto source = [](Op op, std::string_view name, bool reads_files,
                         std::vector<AttrRule> attrs) {
    return OpRule{op, name, OpKind::kSource, 0, 0, reads_files, std::move(attrs)};
  };
  const AttrRule paths = Needs("paths", Strings());
  return {
      source(Op::kRange, "range", false,
             {May("start", int64_t{0}), Needs("stop", kWhole), May("step", int64_t{1})}),
      source(Op::kArray, "array", false,
             {Needs("names", Strings()), Needs("dtypes", Strings()), Needs("shapes", Strings()),
              Needs("data", Strings())}),
      source(Op::kNpy, "npy", true, {paths, May("spec", kText)}),
      // -1, which is no stride: as long as the window.
      source(Op::kWindows, "windows", true,
             {paths, Needs("dtype", kText), Needs("length", kWhole), May("stride", int64_t{-1})}),
      source(Op::kRecords, "records", true, {paths, Needs("bytes", kWhole)}),
      source(Op::kLines, "lines", true, {paths, May("text", true)}),
      source(Op::kTfRecord, "tfrecord", true, {paths}),
      source(Op::kFill, "fill", false,
             {Needs("count", kWhole), Needs("dtype", kText), Needs("shape", Ints()),
              May("seed", int64_t{0})}),
  };
}

std::vector<OpRule> PlanOps() {
  const auto one = [](Op op, std::string_view name, std::vector<AttrRule> attrs) {
    return OpRule{op, name, OpKind::kPlan, 1, 1, false, std::move(attrs)};
  };
  const auto several = [](Op op, std::string_view name, std::vector<AttrRule> attrs) {
    return OpRule{op, name, OpKind::kPlan, 2, kMany, false, std::move(attrs)};
  };
  return {
      one(Op::kShuffle, "shuffle", {Needs("seed", kWhole), May("reshuffle", true)}),
      one(Op::kRepeat, "repeat", {May("count", int64_t{-1})}),
      one(Op::kTake, "take", {Needs("count", kWhole)}),
      one(Op::kSkip, "skip", {Needs("count", kWhole)}),
      several(Op::kConcat, "concat", {}),
      several(Op::kZip, "zip", {May("names", Strings())}),
      several(Op::kMix, "mix", {Needs("weights", Ints())}),
  };
}

std::vector<OpRule> SegmentOps() {
  const auto segment = [](Op op, std::string_view name, std::vector<AttrRule> attrs) {
    return OpRule{op, name, OpKind::kSegment, 1, 1, false, std::move(attrs)};
  };
  return {
      segment(Op::kMap, "map", {Needs("expression", kText)}),
      segment(Op::kFilter, "filter", {Needs("expression", kText)}),
      segment(Op::kMapPython, "map_python",
              {Needs("function", kText), Needs("spec", kText), May("timeout_ms", int64_t{60'000})}),
      segment(Op::kBatch, "batch", {Needs("count", kWhole), May("drop_remainder", false)}),
  };
}

std::vector<OpRule> MakeTable() {
  std::vector<OpRule> table = Sources();
  for (const auto& more : {PlanOps(), SegmentOps()}) {
    table.insert(table.end(), more.begin(), more.end());
  }
  for (OpRule& rule : table) {
    if (rule.kind == OpKind::kPlan || rule.op == Op::kBatch) continue;
    rule.attrs.push_back(May("on_error", std::string("fail")));
    rule.attrs.push_back(May("error_budget", int64_t{-1}));
  }
  // An operator for each `Op`, of which this is the last.
  LOCKSTEP_CHECK(table.size() == static_cast<size_t>(Op::kBatch) + 1);
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
  static_assert(std::size(kNames) == std::variant_size_v<Attr>);
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
