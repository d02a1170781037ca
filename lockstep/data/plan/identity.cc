// A hash of what a definition means: of each node its operator, all attributes with the defaults
// filled in, and the hashes of its inputs.
#include <bit>
#include <map>

#include "absl/strings/str_cat.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/hash.h"
#include "lockstep/data/plan/ops.h"

namespace lockstep::plan {
namespace {

// Little-endian, whatever the machine is.
void AppendNumber(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

void AppendText(std::string& out, std::string_view text) {
  AppendNumber(out, text.size());
  out.append(text);
}

struct AppendAttr {
  std::string& out;

  void operator()(int64_t value) const { AppendNumber(out, static_cast<uint64_t>(value)); }
  void operator()(double value) const { AppendNumber(out, std::bit_cast<uint64_t>(value)); }
  void operator()(bool value) const { AppendNumber(out, value ? 1 : 0); }
  void operator()(const std::string& value) const { AppendText(out, value); }
  void operator()(const std::vector<int64_t>& values) const {
    AppendNumber(out, values.size());
    for (const int64_t value : values) (*this)(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    AppendNumber(out, values.size());
    for (const std::string& value : values) (*this)(value);
  }
};

}  // namespace

std::string Identity(const Definition& definition) {
  std::map<uint32_t, std::string> hashes;
  std::string last;
  for (const Node& node : definition.nodes) {
    std::map<std::string, Attr> attrs = node.attrs;
    if (const OpRule* rule = FindOp(node.op)) {
      for (const AttrRule& attr : rule->attrs) {
        attrs.emplace(std::string(attr.name), attr.otherwise);
      }
    }
    attrs.emplace("segment", int64_t{0});
    std::string canonical;
    AppendNumber(canonical, definition.version);
    AppendText(canonical, node.op);
    AppendNumber(canonical, attrs.size());
    for (const auto& [name, value] : attrs) {
      AppendText(canonical, name);
      AppendNumber(canonical, value.index());
      std::visit(AppendAttr{canonical}, value);
    }
    AppendNumber(canonical, node.inputs.size());
    for (const uint32_t input : node.inputs) AppendText(canonical, hashes[input]);
    last = Hash128(canonical);
    hashes[node.id] = last;
  }
  return ToHex(last);
}

}  // namespace lockstep::plan
