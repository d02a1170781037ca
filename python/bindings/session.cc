#include "lockstep/client/session.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <utility>

#include "calls.h"
#include "handles.h"
#include "lockstep/client/torch_store.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using SessionHandle = Handle<Session>;

nb::object Open(std::string address, std::string job, int32_t size, std::string who,
                Seconds timeout, Seconds grace) {
  SessionOptions options{.address = std::move(address),
                         .job = std::move(job),
                         .size = size,
                         .who = std::move(who),
                         .timeout = ToDuration(timeout),
                         .grace = ToDuration(grace)};
  absl::StatusOr<std::unique_ptr<Session>> session = absl::UnknownError("");
  {
    const WithoutGil without;
    options.interrupted = without.LooksForEnd();
    session = Session::Open(std::move(options));
  }
  return nb::cast(new SessionHandle(std::shared_ptr<Session>(ValueOrThrow(std::move(session)))),
                  nb::rv_policy::take_ownership);
}

nb::object OpenStore(const std::string& address, const std::string& job, int64_t attempt,
                     double timeout) {
  absl::StatusOr<TorchStore> store = absl::UnknownError("");
  {
    const WithoutGil without;
    store = OpenTorchStore(address, job, attempt, absl::Seconds(timeout));
  }
  const TorchStore opened = ValueOrThrow(std::move(store));
  return nb::make_tuple(opened.attempt, opened.address);
}

}  // namespace

void BindSession(nb::module_& module) {
  module.def("open_session", &Open, nb::arg("address"), nb::arg("job"), nb::arg("size"),
             nb::arg("who"), nb::arg("timeout").none(), nb::arg("grace").none());
  module.def("open_torch_store", &OpenStore, nb::arg("address"), nb::arg("job"), nb::arg("attempt"),
             nb::arg("timeout"));
  nb::class_<SessionHandle>(module, "Session")
      .def_prop_ro("job", [](SessionHandle& self) { return self.Get()->job(); })
      .def_prop_ro("size", [](SessionHandle& self) { return self.Get()->size(); })
      .def_prop_ro("attempt", [](SessionHandle& self) { return self.Get()->attempt(); })
      .def("keys", [](SessionHandle& self) { return KeysHandle(self.Get()->keys()); })
      .def("close", &SessionHandle::Close);
}

}  // namespace lockstep::python
