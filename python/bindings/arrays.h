// Arrays of other libraries, as what is sent from and received into.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dlpack.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::python {

// Takes the bytes of anything with the buffer protocol or `__dlpack__`, where they are.
//
// Threads: made and destroyed with the GIL; `CopyTo` needs none.
class Array {
 public:
  enum class Access { kRead, kWrite };

  // Throws TypeError for what is no array of numbers in the memory of this host.
  Array(nanobind::handle value, Access access);
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const rendezvous::Description& about() const { return about_; }
  uint64_t bytes() const { return bytes_; }
  bool contiguous() const { return contiguous_; }
  std::byte* data() const { return data_; }

  // In C order, into as many bytes.
  void CopyTo(std::byte* to) const;

 private:
  // What keeps the bytes, whichever it is.
  struct Kept {
    Kept() = default;
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    std::variant<std::monostate, Py_buffer, dlpack::Managed*, dlpack::ManagedVersioned*> by;
  };

  bool TakeBuffer(nanobind::handle value, Access access);
  bool TakeDlpack(nanobind::handle value, Access access);
  void TakeSmallFloats(nanobind::handle value);
  void TakeTensor(const dlpack::Tensor& tensor);
  void Settle();

  rendezvous::Description about_;
  std::vector<int64_t> strides_;  // in bytes
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  bool contiguous_ = true;

  Kept kept_;
};

// The type of that name; throws TypeError when there is none.
rendezvous::ElementType TypeNamed(const std::string& name);

}  // namespace lockstep::python
