#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <utility>

#include "calls.h"
#include "data.h"
#include "errors.h"
#include "handles.h"
#include "lockstep/engine/local.h"
#include "lockstep/engine/resolve.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

// An iteration in this process, and the spec of what it yields.
//
// Threads: one at a time, which `Next` sees to; the GIL guards the rest.
class LocalObject {
 public:
  explicit LocalObject(std::shared_ptr<const engine::Dataset> dataset, int64_t segment,
                       int64_t index)
      : dataset_(std::move(dataset)),
        iteration_(std::make_unique<engine::LocalIteration>(dataset_, segment, index)) {}

  const plan::ElementSpec& spec() const { return dataset_->spec(); }

  nb::object Next() {
    if (busy_) throw nb::value_error("another thread is waiting for an element of this iterator");
    busy_ = true;
    absl::StatusOr<std::optional<engine::Element>> next = absl::UnknownError("");
    try {
      const WithoutGil without;
      next = iteration_->Next();
    } catch (...) {
      busy_ = false;
      throw;
    }
    busy_ = false;
    const auto element = ValueOrThrow(std::move(next));
    return element ? nb::object(LeavesOf(element->frame(), element->memory())) : nb::object(nb::none());
  }

  std::pair<int64_t, int64_t> Position() const {
    return {iteration_->segment(), iteration_->index()};
  }

 private:
  const std::shared_ptr<const engine::Dataset> dataset_;
  const std::unique_ptr<engine::LocalIteration> iteration_;
  bool busy_ = false;
};

LocalObject* OpenLocal(const DefinitionObject& definition, int64_t segment, int64_t index) {
  absl::StatusOr<std::shared_ptr<const engine::Dataset>> opened = absl::UnknownError("");
  {
    const WithoutGil without;
    opened = [&]() -> absl::StatusOr<std::shared_ptr<const engine::Dataset>> {
      plan::Manifest manifest;
      if (plan::NeedsManifest(definition.definition())) {
        auto resolved = engine::Resolve(definition.definition(), {});
        if (!resolved.ok()) return resolved.status();
        manifest = *std::move(resolved);
      }
      return engine::Dataset::Open(definition.definition(), std::move(manifest), {});
    }();
  }
  return new LocalObject(ValueOrThrow(std::move(opened)), segment, index);
}

}  // namespace

void BindDataLocal(nb::module_& module) {
  nb::class_<LocalObject>(module, "DataLocal")
      .def("spec", [](const LocalObject& self) { return ToObject(self.spec()); })
      .def("next", &LocalObject::Next)
      .def("position", &LocalObject::Position);
  module.def("open_local_data", &OpenLocal, nb::arg("definition"), nb::arg("segment"),
             nb::arg("index"), nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
