#include "arrays.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "errors.h"
#include "lockstep/rendezvous/transport/copy.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;
using rendezvous::ElementType;

constexpr uint8_t kInt = 0;
constexpr uint8_t kUint = 1;
constexpr uint8_t kFloat = 2;
constexpr uint8_t kBfloat = 4;
constexpr uint8_t kComplex = 5;
constexpr uint8_t kBool = 6;
constexpr uint8_t kFloat8First = 7;
constexpr uint8_t kFloat8Last = 14;

[[noreturn]] void ThrowTypeError(const std::string& text) { throw nb::type_error(text.c_str()); }

std::string TypeNameOf(nb::handle value) { return Py_TYPE(value.ptr())->tp_name; }

[[noreturn]] void ThrowNotAnArray(nb::handle value) {
  ThrowTypeError(absl::StrCat(
      "a value is bytes, a lockstep.Tensor, or an array with the buffer protocol or __dlpack__, "
      "not ",
      TypeNameOf(value), "; make an array of it first: numpy.asarray(value), or value.encode()"));
}

// The one number in a format of the buffer protocol; null for what is none, such as records.
std::optional<ElementType> TypeOfFormat(std::string_view format, Py_ssize_t item_bytes) {
  if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos) {
    format.remove_prefix(1);
  } else if (!format.empty() && (format[0] == '>' || format[0] == '!')) {
    if (item_bytes != 1) return std::nullopt;
    format.remove_prefix(1);
  }
  const auto bits = static_cast<uint8_t>(8 * item_bytes);
  if (format == "Zf" || format == "Zd") return ElementType{kComplex, bits};
  if (format.size() != 1) return std::nullopt;
  switch (format[0]) {
    case '?':
      return ElementType{kBool, bits};
    case 'c':
      return ElementType{kUint, 8};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return ElementType{kInt, bits};
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return ElementType{kUint, bits};
    case 'e':
    case 'f':
    case 'd':
      return ElementType{kFloat, bits};
    default:
      return std::nullopt;
  }
}

void CheckHost(nb::handle value) {
  if (!nb::hasattr(value, "__dlpack_device__")) return;
  const auto device = nb::cast<nb::tuple>(value.attr("__dlpack_device__")());
  const auto type = nb::cast<int32_t>(nb::int_(device[0]));
  if (type == dlpack::kCpu || type == dlpack::kCudaHost) return;
  ThrowTypeError(absl::StrCat("the array is on a device (DLPack device type ", type, ", number ",
                              nb::cast<int>(nb::int_(device[1])),
                              "), and only memory of the host is sent and received: copy it first, "
                              "such as by value.cpu() or jax.device_get(value)"));
}

template <size_t kBytes>
void CopyEach(std::byte* to, const std::byte* from, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * stride, kBytes);
}

// A row of runs that lie `stride` apart, of `run` bytes each: mostly single elements.
void CopyRow(std::byte* to, const std::byte* from, int64_t count, int64_t stride, size_t run) {
  switch (run) {
    case 1:
      return CopyEach<1>(to, from, count, stride);
    case 2:
      return CopyEach<2>(to, from, count, stride);
    case 4:
      return CopyEach<4>(to, from, count, stride);
    case 8:
      return CopyEach<8>(to, from, count, stride);
    case 16:
      return CopyEach<16>(to, from, count, stride);
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    transport::CopyBytes(to + static_cast<size_t>(i) * run, from + i * stride, run);
  }
}

void CopyPart(std::byte*& to, const std::byte* from, std::span<const int64_t> shape,
              std::span<const int64_t> strides, size_t run) {
  if (shape.size() == 1) {
    CopyRow(to, from, shape[0], strides[0], run);
    to += static_cast<size_t>(shape[0]) * run;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i) {
    CopyPart(to, from + i * strides[0], shape.subspan(1), strides.subspan(1), run);
  }
}

}  // namespace

Array::Array(nb::handle value, Access access) {
  if (!TakeBuffer(value, access) && !TakeDlpack(value, access)) {
    if (access == Access::kWrite) ThrowNotAnArray(value);
    TakeSmallFloats(value);
  }
  Settle();
}

Array::Kept::~Kept() {
  if (auto* buffer = std::get_if<Py_buffer>(&by)) {
    PyBuffer_Release(buffer);
  } else if (auto* managed = std::get_if<dlpack::Managed*>(&by)) {
    if ((*managed)->deleter != nullptr) (*managed)->deleter(*managed);
  } else if (auto* versioned = std::get_if<dlpack::ManagedVersioned*>(&by)) {
    if ((*versioned)->deleter != nullptr) (*versioned)->deleter(*versioned);
  }
}

bool Array::TakeBuffer(nb::handle value, Access access) {
  if (PyObject_CheckBuffer(value.ptr()) == 0) return false;
  Py_buffer buffer;
  const int flags = access == Access::kWrite ? PyBUF_FULL : PyBUF_FULL_RO;
  if (PyObject_GetBuffer(value.ptr(), &buffer, flags) != 0) {
    // Of types that the protocol has no letter for, and of memory that is only to be read.
    const bool has_another_way = access == Access::kRead;
    if (!has_another_way) throw nb::python_error();
    PyErr_Clear();
    return false;
  }
  const std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  const auto type = TypeOfFormat(format, buffer.itemsize);
  if (!type) {
    const std::string text(format);
    PyBuffer_Release(&buffer);
    ThrowTypeError(absl::StrCat(
        "an array of ", TypeNameOf(value), " with elements of format '", text,
        "' cannot be sent or received: elements are single numbers in the byte order of this "
        "machine, not records, texts, dates or objects; send each field by a name of its own"));
  }
  kept_.by = buffer;
  about_.type = *type;
  about_.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
  strides_.assign(buffer.strides, buffer.strides + buffer.ndim);
  data_ = static_cast<std::byte*>(buffer.buf);
  return true;
}

bool Array::TakeDlpack(nb::handle value, Access access) {
  if (!nb::hasattr(value, "__dlpack__")) return false;
  CheckHost(value);
  nb::object capsule;
  try {
    capsule = value.attr("__dlpack__")(
        nb::arg("max_version") = nb::make_tuple(dlpack::kMajorVersion, dlpack::kMinorVersion));
  } catch (nb::python_error& error) {
    if (error.matches(PyExc_BufferError)) {
      // NumPy has no other words for types that only ml_dtypes knows.
      if (nb::hasattr(value, "__array_interface__")) return false;
      throw;
    }
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = value.attr("__dlpack__")();  // from before there were versions
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedCapsule) != 0) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedCapsule));
    PyCapsule_SetName(capsule.ptr(), dlpack::kUsedVersionedCapsule);
    kept_.by = managed;
    if (managed->major != dlpack::kMajorVersion) {
      ThrowTypeError("the array speaks a version of DLPack that is not known here");
    }
    if (access == Access::kWrite && (managed->flags & dlpack::kReadOnly) != 0) {
      ThrowTypeError("the array is only to be read, and cannot be received into");
    }
    TakeTensor(managed->tensor);
    return true;
  }
  auto* managed =
      static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kCapsule));
  if (managed == nullptr) throw nb::python_error();
  PyCapsule_SetName(capsule.ptr(), dlpack::kUsedCapsule);
  kept_.by = managed;
  TakeTensor(managed->tensor);
  return true;
}

void Array::TakeTensor(const dlpack::Tensor& tensor) {
  about_.type = {tensor.type.code, tensor.type.bits, tensor.type.lanes};
  const size_t bits = size_t{tensor.type.bits} * tensor.type.lanes;
  if (bits % 8 != 0) {
    ThrowTypeError("elements that share bytes are not sent; unpack them first");
  }
  about_.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  strides_.resize(about_.shape.size());
  int64_t next = 1;
  for (size_t i = about_.shape.size(); i-- > 0;) {
    strides_[i] =
        (tensor.strides != nullptr ? tensor.strides[i] : next) * static_cast<int64_t>(bits / 8);
    next *= about_.shape[i];
  }
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// NumPy arrays of bfloat16 and its like, which neither protocol of NumPy's can tell.
void Array::TakeSmallFloats(nb::handle value) {
  const nb::object seen = nb::module_::import_("lockstep._arrays").attr("as_bytes")(value);
  if (seen.is_none()) ThrowNotAnArray(value);
  const auto parts = nb::cast<nb::tuple>(seen);
  if (!TakeBuffer(parts[0], Access::kRead)) ThrowNotAnArray(value);
  about_.type = TypeNamed(nb::cast<std::string>(parts[1]));
  about_.shape = nb::cast<std::vector<int64_t>>(parts[2]);
  strides_.resize(about_.shape.size());
  int64_t next = (about_.type.bits + 7) / 8;
  for (size_t i = about_.shape.size(); i-- > 0;) {
    strides_[i] = std::exchange(next, next * about_.shape[i]);
  }
}

void Array::Settle() {
  const auto bytes = rendezvous::BytesOf(about_.type, about_.shape);
  if (!bytes.ok()) {
    throw StatusError{bytes.status()};
  }
  bytes_ = *bytes;
  if (bytes_ == 0) return;
  auto next = static_cast<int64_t>((size_t{about_.type.bits} * about_.type.lanes + 7) / 8);
  for (size_t i = about_.shape.size(); i-- > 0;) {
    if (about_.shape[i] != 1 && strides_[i] != next) contiguous_ = false;
    next *= about_.shape[i];
  }
}

void Array::CopyTo(std::byte* to) const {
  if (bytes_ == 0) return;
  if (contiguous_) return transport::CopyBytes(to, data_, bytes_);
  // The last dimensions may be one run of bytes; not all are, since it is not contiguous.
  size_t run = (size_t{about_.type.bits} * about_.type.lanes + 7) / 8;
  size_t outer = about_.shape.size();
  while (outer > 1 && strides_[outer - 1] == static_cast<int64_t>(run)) {
    run *= static_cast<size_t>(about_.shape[--outer]);
  }
  CopyPart(to, data_, std::span(about_.shape).first(outer), std::span(strides_).first(outer), run);
}

ElementType TypeNamed(const std::string& name) {
  std::vector<ElementType> known = {{kBool, 8},    {kFloat, 16},   {kFloat, 32},    {kFloat, 64},
                                    {kBfloat, 16}, {kComplex, 64}, {kComplex, 128}, {15, 6},
                                    {16, 6},       {17, 4}};
  for (const uint8_t bits : {2, 4, 8, 16, 32, 64}) {
    known.push_back({kInt, bits});
    known.push_back({kUint, bits});
  }
  for (uint8_t code = kFloat8First; code <= kFloat8Last; ++code) known.push_back({code, 8});
  for (const ElementType type : known) {
    if (rendezvous::NameOf(type) == name) return type;
  }
  ThrowTypeError(absl::StrCat("elements of type '", name,
                              "' are not known here: they are numbers such as 'float32', "
                              "'bfloat16', 'int64', 'bool'"));
}

}  // namespace lockstep::python
