#include <nanobind/stl/optional.h>

#include <memory>
#include <utility>

#include "calls.h"
#include "convert.h"
#include "handles.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

template <class Changes, class Watch>
nb::object Next(Handle<Watch>& self, Seconds timeout, std::optional<Ticket> ticket) {
  const std::shared_ptr<Watch> watch = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<Changes>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return watch->Next(std::move(options));
      },
      [&](auto done) { return watch->NextAsync(std::move(options), std::move(done)); },
      [](const Changes& changes) { return ToObject(changes); });
}

template <class Changes, class Watch>
void BindWatch(nb::module_& module, const char* name) {
  nb::class_<Handle<Watch>>(module, name)
      .def("next", &Next<Changes, Watch>, nb::arg("timeout").none(),
           nb::arg("ticket").none() = nb::none())
      .def("close", &Handle<Watch>::Close);
}

}  // namespace

void BindWatches(nb::module_& module) {
  BindWatch<KeyChanges, KeyWatch>(module, "KeyWatch");
  BindWatch<JobChange, JobWatch>(module, "JobWatch");
}

}  // namespace lockstep::python
