#include "tensors.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "absl/strings/str_cat.h"
#include "convert.h"
#include "dlpack.h"
#include "errors.h"
#include "lockstep/rendezvous/transport/copy.h"
#include "lockstep/wire/native/error_reply.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;
using rendezvous::ElementType;

// Empty for what the buffer protocol has no letter for.
std::string FormatOf(ElementType type) {
  if (type.lanes != 1) return "";
  switch (type.code) {
    case 0:
      return type.bits == 8    ? "b"
             : type.bits == 16 ? "h"
             : type.bits == 32 ? "i"
             : type.bits == 64 ? "q"
                               : "";
    case 1:
      return type.bits == 8    ? "B"
             : type.bits == 16 ? "H"
             : type.bits == 32 ? "I"
             : type.bits == 64 ? "Q"
                               : "";
    case 2:
      return type.bits == 16 ? "e" : type.bits == 32 ? "f" : type.bits == 64 ? "d" : "";
    case 5:
      return type.bits == 64 ? "Zf" : type.bits == 128 ? "Zd" : "";
    case 6:
      return type.bits == 8 ? "?" : "";
    default:
      return "";
  }
}

// What a DLPack consumer holds: the tensor, its memory and its numbers.
template <class Managed>
struct Exported {
  Managed managed;
  rendezvous::MemoryPtr memory;
  std::shared_ptr<std::byte> copy;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

template <class Managed>
nb::object ToCapsule(std::unique_ptr<Exported<Managed>> exported, const char* name) {
  Managed* managed = &exported->managed;
  managed->context = exported.get();
  // Called by whoever has it, also without the GIL.
  managed->deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->context); };
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* object) {
    // Renamed by who took it, who calls the deleter then.
    for (const char* own : {dlpack::kCapsule, dlpack::kVersionedCapsule}) {
      if (PyCapsule_IsValid(object, own) == 0) continue;
      auto* untaken = static_cast<Managed*>(PyCapsule_GetPointer(object, own));
      untaken->deleter(untaken);
    }
  });
  if (capsule == nullptr) throw nb::python_error();
  exported.release();
  return nb::steal(capsule);
}

std::shared_ptr<std::byte> CopyOf(std::span<const std::byte> bytes) {
  constexpr std::align_val_t kAlignment{64};  // what JAX takes without a copy of its own
  std::shared_ptr<std::byte> copy(
      static_cast<std::byte*>(::operator new(std::max<size_t>(bytes.size(), 1), kAlignment)),
      [](std::byte* memory) { ::operator delete(memory, kAlignment); });
  if (!bytes.empty()) {
    const nb::gil_scoped_release release;
    transport::CopyBytes(copy.get(), bytes.data(), bytes.size());
  }
  return copy;
}

template <class Managed>
nb::object Export(const TensorObject& from, const std::vector<int64_t>& shape, bool copy,
                  const char* name) {
  auto exported = std::make_unique<Exported<Managed>>();
  const std::span<const std::byte> bytes = from.tensor().bytes();
  exported->memory = copy ? nullptr : from.tensor().memory();
  if (copy) exported->copy = CopyOf(bytes);
  exported->shape = shape;
  exported->strides.resize(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;)
    exported->strides[i] = std::exchange(next, next * shape[i]);
  dlpack::Tensor& tensor = exported->managed.tensor;
  // DLPack has no word for memory that is only to be read but the flag.
  tensor.data = copy ? exported->copy.get() : const_cast<std::byte*>(bytes.data());
  tensor.dimensions = static_cast<int32_t>(shape.size());
  const ElementType type = from.tensor().about().type;
  tensor.type = {type.code, type.bits, type.lanes};
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  if constexpr (std::is_same_v<Managed, dlpack::ManagedVersioned>) {
    exported->managed.flags = copy ? dlpack::kIsCopied : from.writable() ? 0 : dlpack::kReadOnly;
  }
  return ToCapsule(std::move(exported), name);
}

template <class Object>
int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  return nb::inst_ptr<Object>(self)->FillBuffer(self, view, flags);
}

template <class Object>
nb::object DlpackOf(const Object& self, const nb::object& stream,
                    const std::optional<nb::tuple>& max_version,
                    const std::optional<nb::tuple>& device, std::optional<bool> copy) {
  (void)stream;  // memory of the host is in order for all of them
  ThrowUnlessOk(self.Alive());
  if (device && nb::cast<int>(nb::int_((*device)[0])) != dlpack::kCpu) {
    throw nb::buffer_error("a lockstep.Tensor is in memory of the host; copy it to the device");
  }
  const bool versioned =
      max_version && nb::cast<uint32_t>(nb::int_((*max_version)[0])) >= dlpack::kMajorVersion;
  return self.Dlpack(versioned, copy.value_or(false), copy.has_value() && !*copy);
}

nb::tuple ShapeOf(const TensorObject& self) {
  nb::list shape;
  for (const int64_t extent : self.shape()) shape.append(extent);
  return nb::tuple(shape);
}

template <class Object>
void BindTensor(nb::module_& module, const char* name, const char* doc) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&GetBuffer<Object>)},
                                {0, nullptr}};
  nb::class_<Object> object(module, name, nb::type_slots(slots), nb::is_weak_referenceable(), doc);
  object
      .def_prop_ro(
          "shape", [](const Object& self) { return ShapeOf(self); },
          "The extents: (3, 4). () is a single number.")
      .def_prop_ro(
          "dtype", [](const Object& self) { return self.type_name(); },
          "The name of the elements' type: \"float32\", \"bfloat16\", \"uint8\".")
      .def_prop_ro(
          "nbytes", [](const Object& self) { return self.tensor().bytes().size(); },
          "How many bytes it takes.")
      .def("__len__",
           [](const Object& self) {
             if (self.shape().empty()) throw nb::type_error("a single number has no length");
             return static_cast<size_t>(self.shape()[0]);
           })
      .def("__bytes__",
           [](const Object& self) {
             ThrowUnlessOk(self.Alive());
             return ToBytes(self.tensor().text());
           })
      .def("__repr__",
           [name](const Object& self) {
             if (self.dead())
               return absl::StrCat("<lockstep.", name, ", dead: ", self.why_dead(), ">");
             return absl::StrCat("<lockstep.", name, " ", self.type_name(),
                                 nb::cast<std::string>(nb::str(ShapeOf(self))), ">");
           })
      .def("__dlpack__", &DlpackOf<Object>, nb::kw_only(), nb::arg("stream").none() = nb::none(),
           nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
           nb::arg("copy").none() = nb::none(),
           "For numpy.from_dlpack, torch.from_dlpack, jax.dlpack.from_dlpack. Who knows DLPack 1.0 "
           "sees the memory itself, marked as only to be read; all others, and copy=True, get a "
           "copy.")
      .def("__dlpack_device__", [](const Object&) { return nb::make_tuple(int{dlpack::kCpu}, 0); })
      .def(
          "numpy",
          [](nb::handle_t<Object> self) {
            ThrowUnlessOk(nb::inst_ptr<Object>(self)->Alive());
            return nb::module_::import_("lockstep._arrays").attr("to_numpy")(self);
          },
          "The memory itself as a numpy.ndarray of this shape and type, which keeps it. What was "
          "received cannot be written. bfloat16 and the small floats need ml_dtypes.");
  object.attr("__module__") = "lockstep";
}

}  // namespace

TensorObject::TensorObject(Tensor tensor, std::byte* writable)
    : tensor_(std::move(tensor)), writable_(writable != nullptr) {
  const auto& [type, shape] = tensor_.about();
  shape_ = shape;
  format_ = FormatOf(type);
  item_bytes_ = static_cast<Py_ssize_t>((size_t{type.bits} * type.lanes + 7) / 8);
  strides_.resize(shape_.size());
  int64_t next = item_bytes_;
  for (size_t i = shape_.size(); i-- > 0;) strides_[i] = std::exchange(next, next * shape_[i]);
}

TensorObject::TensorObject(Received received) : TensorObject(std::move(received.tensor), nullptr) {
  dead_ = received.dead;
  why_dead_ = std::move(received.why_dead);
}

absl::Status TensorObject::Alive() const {
  if (!dead_) return absl::OkStatus();
  return wire::native::WithReason(absl::FailedPreconditionError(absl::StrCat(
                                      "the sender said that there is no value: ", why_dead_,
                                      "; look at .dead before the content")),
                                  "dead_value");
}

int TensorObject::FillBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if (const absl::Status alive = Alive(); !alive.ok()) {
    const nb::object error = ErrorObject(alive);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    return -1;
  }
  if ((flags & PyBUF_WRITABLE) != 0 && !writable_) {
    PyErr_SetString(PyExc_BufferError, "this tensor is only to be read");
    return -1;
  }
  if ((flags & PyBUF_FORMAT) != 0 && format_.empty()) {
    PyErr_Format(PyExc_BufferError, "the buffer protocol has no format for %s; take .numpy()",
                 type_name().c_str());
    return -1;
  }
  static std::byte nothing{};
  const std::span<const std::byte> bytes = tensor_.bytes();
  view->buf = bytes.data() == nullptr ? &nothing : const_cast<std::byte*>(bytes.data());
  view->len = static_cast<Py_ssize_t>(bytes.size());
  view->readonly = writable_ ? 0 : 1;
  const bool in_parts = (flags & PyBUF_ND) != 0;
  view->itemsize = in_parts ? item_bytes_ : 1;
  view->format = (flags & PyBUF_FORMAT) != 0 ? format_.data() : nullptr;
  view->ndim = in_parts ? static_cast<int>(shape_.size()) : 1;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  view->shape = in_parts ? reinterpret_cast<Py_ssize_t*>(shape_.data()) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
                      ? reinterpret_cast<Py_ssize_t*>(strides_.data())
                      : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  view->obj = Py_NewRef(self);
  return 0;
}

nb::object TensorObject::Dlpack(bool versioned, bool copy, bool copy_forbidden) const {
  const ElementType type = tensor_.about().type;
  if (size_t{type.bits} * type.lanes % 8 != 0) {
    throw nb::buffer_error(
        "DLPack packs elements of fewer than 8 bits, and these are not; take .numpy()");
  }
  if (versioned) {
    return Export<dlpack::ManagedVersioned>(*this, shape_, copy, dlpack::kVersionedCapsule);
  }
  if (copy_forbidden && !writable_) {
    throw nb::buffer_error(
        "what is only to be read is not lent to who does not know DLPack 1.0, "
        "and a copy was forbidden");
  }
  return Export<dlpack::Managed>(*this, shape_, copy || !writable_, dlpack::kCapsule);
}

void BindTensors(nb::module_& module) {
  BindTensor<ReceivedObject>(
      module, "Tensor",
      "What was received: an array that cannot be written, in the memory where it arrived.\n\n"
      "Take it as `tensor.numpy()`, numpy.from_dlpack, torch.from_dlpack or memoryview, none\n"
      "of which copies, or as bytes(tensor). The memory stays for as long as this "
      "or\n"
      "any of these, also when the step and the rendezvous were closed, and counts as the "
      "sender's\n"
      "until then.\n\n"
      "When the sender said that there is no value, `dead` is True, `why_dead` says why, and what "
      "asks\n"
      "for the content raises FailedPrecondition, reason \"dead_value\".");
  nb::class_<ReceivedObject> received =
      nb::borrow<nb::class_<ReceivedObject>>(module.attr("Tensor"));
  received
      .def_prop_ro(
          "dead", [](const ReceivedObject& self) { return self.dead(); },
          "True when the sender said that there is no value.")
      .def_prop_ro(
          "why_dead", [](const ReceivedObject& self) { return ToText(self.why_dead()); },
          "Why there is no value; empty when there is one.");
  BindTensor<NewObject>(
      module, "NewTensor",
      "An array to be filled and sent without a copy, in memory that others on this host see.\n\n"
      "Fill it by `tensor.numpy()`, torch.from_dlpack or memoryview before it is sent, and leave "
      "it alone\n"
      "afterwards: views that are made later cannot be written, but those that were made before "
      "still\n"
      "can, and who receives it would see that. Its content is undefined at first.");
}

}  // namespace lockstep::python
