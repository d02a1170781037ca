#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "calls.h"
#include "convert.h"
#include "handles.h"
#include "lockstep/client/host_notices.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using NoticesHandle = Handle<HostNotices>;

NoticesHandle* Open(MemberHandle& member, std::vector<std::string> sources, bool once_a_host) {
  const std::shared_ptr<Member> held = member.Get();
  absl::StatusOr<std::unique_ptr<HostNotices>> notices = absl::UnknownError("");
  {
    const WithoutGil without(member.closed());
    notices =
        HostNotices::Start(*held, {.sources = std::move(sources), .once_a_host = once_a_host});
  }
  return new NoticesHandle(std::shared_ptr<HostNotices>(ValueOrThrow(std::move(notices))));
}

// In the order of lockstep._types.SourceState.
nb::object Sources(NoticesHandle& self) {
  nb::list states;
  for (const SourceState& state : self.Get()->sources()) {
    nb::object last_success = nb::none();
    if (state.last_success) last_success = nb::cast(absl::ToDoubleSeconds(*state.last_success));
    states.append(nb::make_tuple(state.source, state.detail, state.healthy, last_success,
                                 state.last_error, state.successes, state.failures, state.notices));
  }
  return states;
}

}  // namespace

void BindNotices(nb::module_& module) {
  nb::class_<NoticesHandle>(module, "HostNotices")
      .def("looking", [](NoticesHandle& self) { return self.Get()->looking(); })
      .def("sources", &Sources)
      .def("close", &NoticesHandle::Close);
  module.def("open_notices", &Open, nb::arg("member"), nb::arg("sources"), nb::arg("once_a_host"),
             nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
