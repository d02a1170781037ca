#include "lockstep/wire/native/data_definition.h"

#include <bit>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

DataAttribute MessageOf(const std::string& name, const plan::Attr& value) {
  DataAttribute to{.name = ToUtf8(name)};
  std::visit(
      [&](const auto& of) {
        using T = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          to.integer = of;
        } else if constexpr (std::is_same_v<T, double>) {
          to.real = std::bit_cast<uint64_t>(of);
        } else if constexpr (std::is_same_v<T, bool>) {
          to.truth = of;
        } else if constexpr (std::is_same_v<T, std::string>) {
          to.text = Bytes{of};
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          to.integers = DataIntegers{of};
        } else {
          DataTexts texts;
          for (const std::string& text : of) texts.values.push_back({text});
          to.texts = std::move(texts);
        }
      },
      value);
  return to;
}

// The values that are set; one is right.
int CountValues(const DataAttribute& from) {
  return static_cast<int>(from.integer.has_value()) + static_cast<int>(from.real.has_value()) +
         static_cast<int>(from.truth.has_value()) + static_cast<int>(from.text.has_value()) +
         static_cast<int>(from.integers.has_value()) + static_cast<int>(from.texts.has_value());
}

plan::Attr ValueOf(DataAttribute& from) {
  if (from.integer) return *from.integer;
  if (from.real) return std::bit_cast<double>(*from.real);
  if (from.truth) return *from.truth;
  if (from.text) return std::move(from.text->data);
  if (from.integers) return std::move(from.integers->values);
  std::vector<std::string> texts;
  for (Bytes& text : from.texts->values) texts.push_back(std::move(text.data));
  return texts;
}

}  // namespace

std::string EncodeDefinition(const plan::Definition& definition) {
  DataDefinition to{.version = definition.version};
  for (const plan::Node& node : definition.nodes) {
    DataNode& added = to.nodes.emplace_back(DataNode{
        .id = node.id, .op = ToUtf8(node.op), .inputs = node.inputs, .where = {node.where}});
    for (const auto& [name, value] : node.attrs) added.attributes.push_back(MessageOf(name, value));
  }
  return Encode(to);
}

std::string EncodeManifest(const plan::Manifest& manifest) {
  DataManifest to;
  to.files.reserve(manifest.files.size());
  for (const plan::FileInfo& file : manifest.files) {
    to.files.push_back({.node = file.node,
                        .path = {file.path},
                        .bytes = file.bytes,
                        .mtime_ns = file.mtime_ns,
                        .records = file.records});
  }
  for (const auto& [node, spec] : manifest.specs) {
    to.specs.push_back({.node = node, .spec = ToUtf8(spec)});
  }
  return Encode(to);
}

absl::StatusOr<plan::Definition> DecodeDefinition(std::string_view bytes) {
  auto from = Decode<DataDefinition>(bytes);
  if (!from.ok()) return from.status();
  plan::Definition to{.version = from->version};
  for (DataNode& node : from->nodes) {
    plan::Node& added = to.nodes.emplace_back(plan::Node{.id = node.id,
                                                         .op = std::move(node.op),
                                                         .inputs = std::move(node.inputs),
                                                         .where = std::move(node.where.data)});
    for (DataAttribute& attribute : node.attributes) {
      if (CountValues(attribute) != 1) {
        return absl::InvalidArgumentError(
            absl::StrFormat("attribute '%s' of node %d (%s) has %d values instead of one: a newer "
                            "program wrote it",
                            attribute.name, added.id, added.op, CountValues(attribute)));
      }
      std::string name = std::move(attribute.name);
      if (!added.attrs.emplace(name, ValueOf(attribute)).second) {
        return absl::InvalidArgumentError(
            absl::StrFormat("attribute '%s' of node %d comes twice", name, added.id));
      }
    }
  }
  return to;
}

absl::StatusOr<plan::Manifest> DecodeManifest(std::string_view bytes) {
  auto from = Decode<DataManifest>(bytes);
  if (!from.ok()) return from.status();
  plan::Manifest to;
  to.files.reserve(from->files.size());
  for (DataFile& file : from->files) {
    to.files.push_back({.node = file.node,
                        .path = std::move(file.path.data),
                        .bytes = file.bytes,
                        .mtime_ns = file.mtime_ns,
                        .records = file.records});
  }
  for (DataFileSpec& spec : from->specs) to.specs[spec.node] = std::move(spec.spec);
  return to;
}

}  // namespace lockstep::wire::native
