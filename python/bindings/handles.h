// What Python objects hold of the client.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "errors.h"
#include "lockstep/client/keys.h"
#include "lockstep/client/member.h"

namespace lockstep::python {

// An object of the client with an end that Python decides on. A call holds on to it while it waits,
// so `Close` from another thread takes it away only then; the wait itself ends within 50 ms.
//
// Threads: the pointer is guarded by the GIL.
template <class T>
class Handle {
 public:
  explicit Handle(std::shared_ptr<T> object) : object_(std::move(object)) {}

  std::shared_ptr<T> Get() const {
    if (object_ == nullptr) throw StatusError{absl::FailedPreconditionError("it was closed")};
    return object_;
  }

  // The same without a hold on it, for as long as the GIL is not let go; null when closed.
  T* Peek() const { return object_.get(); }

  // True from `Close` on; lives as long as the handle.
  const std::atomic<bool>* closed() const { return &closed_; }

  void Close() {
    closed_.store(true);
    std::shared_ptr<T> last = std::move(object_);
    if (last == nullptr) return;
    const nanobind::gil_scoped_release release;
    last.reset();
  }

 private:
  std::shared_ptr<T> object_;
  std::atomic<bool> closed_ = false;
};

using MemberHandle = Handle<Member>;
using KeyWatchHandle = Handle<KeyWatch>;
using JobWatchHandle = Handle<JobWatch>;

// A copy per Python object; it may outlive its member.
class KeysHandle {
 public:
  explicit KeysHandle(Keys keys) : keys_(std::move(keys)) {}
  const Keys& keys() const { return keys_; }

 private:
  Keys keys_;
};

}  // namespace lockstep::python
