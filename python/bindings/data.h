// Datasets, and the elements that they yield, as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "lockstep/data/plan/definition.h"

namespace lockstep::python {

// What a dataset is made of. Immutable.
class DefinitionObject {
 public:
  explicit DefinitionObject(plan::Definition definition) : definition_(std::move(definition)) {}
  const plan::Definition& definition() const { return definition_; }

 private:
  const plan::Definition definition_;
};

// The leaves in the order of the spec: numbers as lockstep.Tensor, which shares the frame's memory;
// text as str, bytes as bytes, and lists of them for each dimension. Throws what a damaged frame
// is.
nanobind::list LeavesOf(std::span<const std::byte> frame, std::shared_ptr<const void> keeps);

// Those bytes as a lockstep.Tensor of uint8.
nanobind::object BytesOf(std::span<const std::byte> bytes, std::shared_ptr<const void> keeps);

// (single, [(name, type, extents)]); an extent that is not known is -1.
nanobind::object ToObject(const plan::ElementSpec& spec);

}  // namespace lockstep::python
