#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "data.h"
#include "errors.h"
#include "lockstep/data/engine/frame.h"
#include "lockstep/data/engine/functions.h"
#include "lockstep/data/engine/local.h"
#include "lockstep/data/engine/resolve.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

// Runs Python functions in this process, on the thread that asks for elements.
//
// Threads: one at a time, which LocalObject sees to; takes the GIL.
class FunctionsHere : public engine::FunctionRunner {
 public:
  absl::StatusOr<std::vector<engine::FunctionResult>> Call(
      const engine::Function& function, std::span<const engine::Element> elements) override {
    const nb::gil_scoped_acquire gil;
    std::vector<engine::FunctionResult> results;
    try {
      const nb::object run = nb::module_::import_("lockstep.data._functions")
                                 .attr("runner")(function.reference, plan::ToText(function.input),
                                                 plan::ToText(function.output));
      for (const engine::Element& element : elements) {
        results.push_back(Result(run, element));
        if (Interrupted()) return absl::CancelledError("interrupted by an exception");
      }
    } catch (nb::python_error& error) {
      return Failed(error);
    }
    return results;
  }

  // The program's own dataset runs the program's own functions.
  absl::Status Check(const std::string&) const override { return absl::OkStatus(); }

  // What a function or its module raised last; null when it was none. Needs the GIL.
  nb::object TakeRaised() { return std::move(raised_); }

 private:
  // KeyboardInterrupt, SystemExit: no matter of the element's.
  bool Interrupted() const {
    return raised_.is_valid() && !PyErr_GivenExceptionMatches(raised_.ptr(), PyExc_Exception);
  }

  engine::FunctionResult Result(const nb::object& run, const engine::Element& element) {
    try {
      const nb::object frame =
          nb::steal(PyMemoryView_FromObject(BytesOf(element.frame(), element.memory()).ptr()));
      const auto made = nb::cast<nb::bytes>(run(frame));
      auto memory = allocator_(made.size());
      if (!memory.ok()) return {.error = std::string(memory.status().message())};
      std::memcpy((*memory)->data(), made.c_str(), made.size());
      engine::Seal({(*memory)->data(), made.size()});
      return {.element = engine::Element(*std::move(memory), 0, made.size())};
    } catch (nb::python_error& error) {
      return {.error = std::string(Failed(error).message())};
    }
  }

  absl::Status Failed(nb::python_error& error) {
    raised_ = nb::borrow(error.value());
    return absl::InvalidArgumentError(error.what());
  }

  const engine::Allocator allocator_ = engine::HeapAllocator();
  nb::object raised_;
};

// An iteration in this process, and the spec of what it yields.
//
// Threads: one at a time, which `Next` sees to; the GIL guards the rest.
class LocalObject {
 public:
  LocalObject(std::shared_ptr<const engine::Dataset> dataset,
              std::shared_ptr<FunctionsHere> functions, int64_t segment, int64_t index)
      : dataset_(std::move(dataset)),
        functions_(std::move(functions)),
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
    const nb::object raised = functions_->TakeRaised();
    if (!next.ok() && raised.is_valid()) Raise(next.status(), raised);
    const auto element = ValueOrThrow(std::move(next));
    return element ? nb::object(LeavesOf(element->frame(), element->memory()))
                   : nb::object(nb::none());
  }

  std::pair<int64_t, int64_t> Position() const {
    return {iteration_->segment(), iteration_->index()};
  }

 private:
  // The error, with what a function raised as its cause; or that itself, when it is Ctrl-C.
  [[noreturn]] static void Raise(const absl::Status& status, const nb::object& raised) {
    nb::object error = raised;
    if (PyErr_GivenExceptionMatches(raised.ptr(), PyExc_Exception) != 0) {
      error = ErrorObject(status);
      PyException_SetCause(error.ptr(), nb::object(raised).release().ptr());
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw nb::python_error();
  }

  const std::shared_ptr<const engine::Dataset> dataset_;
  const std::shared_ptr<FunctionsHere> functions_;
  const std::unique_ptr<engine::LocalIteration> iteration_;
  bool busy_ = false;
};

LocalObject* OpenLocal(const DefinitionObject& definition, int64_t segment, int64_t index) {
  const auto functions = std::make_shared<FunctionsHere>();
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
      return engine::Dataset::Open(definition.definition(), std::move(manifest),
                                   {.functions = functions, .map_files = true});
    }();
  }
  return new LocalObject(ValueOrThrow(std::move(opened)), functions, segment, index);
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
