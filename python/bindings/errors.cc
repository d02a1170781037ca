#include "errors.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "lockstep/client/errors.h"

namespace lockstep::python {

namespace nb = nanobind;

nb::object ErrorObject(const absl::Status& status) {
  const absl::string_view text = status.message();
  // A peer's words may be any bytes, and an error must not fail to be told.
  nb::object message = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  return nb::module_::import_("lockstep._errors")
      .attr("_from_status")(static_cast<int>(status.code()), message, ReasonOf(status),
                            DetailsOf(status));
}

void ThrowUnlessOk(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  if (!status.ok()) throw StatusError{status};
}

void RegisterErrors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      nb::object object = ErrorObject(error.status);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())), object.ptr());
    }
  });
}

}  // namespace lockstep::python
