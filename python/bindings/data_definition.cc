#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrays.h"
#include "convert.h"
#include "data.h"
#include "errors.h"
#include "lockstep/data/plan/plan.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

std::string ToAttrText(nb::handle value) {
  if (nb::isinstance<nb::bytes>(value)) return FromBytes(nb::borrow<nb::bytes>(value));
  return nb::cast<std::string>(value);
}

plan::Attr ToAttr(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::tuple>(value)) return nb::cast<std::vector<int64_t>>(value);
  if (!nb::isinstance<nb::list>(value)) return ToAttrText(value);
  std::vector<std::string> texts;
  for (const nb::handle one : nb::borrow<nb::list>(value)) texts.push_back(ToAttrText(one));
  return texts;
}

// [(id, op, inputs, attributes, where)], as python/lockstep/data/_nodes.py makes them.
DefinitionObject* MakeDefinition(const nb::list& nodes) {
  plan::Definition definition;
  for (const nb::handle raw : nodes) {
    const auto parts = nb::cast<nb::tuple>(raw);
    plan::Node node{.id = nb::cast<uint32_t>(parts[0]),
                    .op = nb::cast<std::string>(parts[1]),
                    .inputs = nb::cast<std::vector<uint32_t>>(parts[2]),
                    .where = nb::cast<std::string>(parts[4])};
    for (const auto& [name, value] : nb::cast<nb::dict>(parts[3])) {
      node.attrs.emplace(nb::cast<std::string>(name), ToAttr(value));
    }
    definition.nodes.push_back(std::move(node));
  }
  return new DefinitionObject(std::move(definition));
}

plan::ElementSpec Checked(const DefinitionObject& self) {
  return ValueOrThrow(plan::Check(self.definition()));
}

// How many elements; -1: no end; none: only reading will tell.
std::optional<int64_t> Elements(const DefinitionObject& self) {
  Checked(self);
  if (plan::NeedsManifest(self.definition())) return std::nullopt;
  const plan::Plan plan = ValueOrThrow(plan::Plan::Make(self.definition(), {}));
  if (plan.positions() == plan::kInfinite) return -1;
  const auto elements = plan.elements();
  return elements == plan::kInfinite ? -1 : elements;
}

// (bytes in C order, name of the type, extents).
nb::tuple ArrayParts(nb::handle value) {
  const Array array(value, Array::Access::kRead);
  nb::bytes bytes = nb::steal<nb::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(array.bytes())));
  if (!bytes.is_valid()) throw nb::python_error();
  array.CopyTo(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())));
  return nb::make_tuple(std::move(bytes), rendezvous::NameOf(array.about().type),
                        array.about().shape);
}

}  // namespace

void BindDataDefinition(nb::module_& module) {
  nb::class_<DefinitionObject>(module, "DataDefinition")
      .def("spec",
           [](const DefinitionObject& self) {
             const plan::ElementSpec spec = Checked(self);
             return spec.known ? ToObject(spec) : nb::object(nb::none());
           })
      .def("names",
           [](const DefinitionObject& self) {
             const plan::ElementSpec spec = Checked(self);
             std::vector<std::string> names;
             for (const plan::Leaf& leaf : spec.leaves) names.push_back(leaf.name);
             return std::pair(spec.single, std::move(names));
           })
      .def("spec_text",
           [](const DefinitionObject& self) -> std::optional<std::string> {
             const plan::ElementSpec spec = Checked(self);
             if (!spec.known) return std::nullopt;
             return plan::ToText(spec);
           })
      .def("identity",
           [](const DefinitionObject& self) {
             Checked(self);
             return plan::Identity(self.definition());
           })
      .def("elements", &Elements);
  module.def("data_definition", &MakeDefinition, nb::arg("nodes"), nb::rv_policy::take_ownership);
  module.def("array_parts", &ArrayParts, nb::arg("value").none());
}

}  // namespace lockstep::python
