// Values of the rendezvous as Python objects: lockstep.Tensor, lockstep.NewTensor.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/client/rendezvous.h"

namespace lockstep::python {

// What came, or what is being made, and the numbers that a Py_buffer and a DLPack tensor point to.
// The memory stays for as long as this or any view of it.
//
// Threads: guarded by the GIL.
class TensorObject {
 public:
  TensorObject(Tensor tensor, std::byte* writable);
  explicit TensorObject(Received received);

  const Tensor& tensor() const { return tensor_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  std::string type_name() const { return rendezvous::NameOf(tensor_.about().type); }
  const std::string& format() const { return format_; }  // empty: the buffer protocol has none
  Py_ssize_t item_bytes() const { return item_bytes_; }
  bool dead() const { return dead_; }
  const std::string& why_dead() const { return why_dead_; }
  bool writable() const { return writable_; }

  // OK unless it is dead.
  absl::Status Alive() const;
  // From now on views are only to be read.
  void Sent() { writable_ = false; }

  int FillBuffer(PyObject* self, Py_buffer* view, int flags);
  nanobind::object Dlpack(bool versioned, bool copy, bool copy_forbidden) const;

 private:
  Tensor tensor_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;  // in bytes
  std::string format_;
  Py_ssize_t item_bytes_ = 1;
  bool dead_ = false;
  std::string why_dead_;
  bool writable_ = false;
};

// Two classes for Python, since what may be done with them differs.
class ReceivedObject : public TensorObject {
 public:
  using TensorObject::TensorObject;
};
class NewObject : public TensorObject {
 public:
  using TensorObject::TensorObject;
};

}  // namespace lockstep::python
