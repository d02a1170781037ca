#include "lockstep/client/preemption.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "calls.h"
#include "convert.h"
#include "handles.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using PreemptionHandle = Handle<Preemption>;

// In the order of lockstep._types.PreemptionNotice.
nb::object ToObject(const PreemptionNotice& notice) {
  nb::object left = nb::none();
  if (notice.left) left = nb::cast(absl::ToDoubleSeconds(*notice.left));
  return nb::make_tuple(notice.id, notice.open, notice.phase, notice.outcome, notice.text,
                        notice.step, notice.withdrawn, notice.sources, notice.subjects,
                        notice.concerns_me, left, notice.attempt);
}

PreemptionHandle* Open(MemberHandle& member, int64_t stride, std::optional<int64_t> last_step,
                       double save_estimate, double wait_max) {
  return new PreemptionHandle(std::shared_ptr<Preemption>(
      Preemption::Open(*member.Get(), {.stride = stride,
                                       .last_step = last_step,
                                       .save_estimate = absl::Seconds(save_estimate),
                                       .wait_max = absl::Seconds(wait_max)})));
}

// The GIL is held for as long as nothing is to be waited for: it costs more than the answer.
bool Reached(PreemptionHandle& self, int64_t step) {
  Preemption* preemption = self.Peek();
  if (preemption == nullptr) return false;
  if (preemption->Passes(step)) return false;
  const std::shared_ptr<Preemption> held = self.Get();
  absl::Status ended;
  bool reached = false;
  {
    WithoutGil without(self.closed());
    const Interrupted looks = without.LooksForEnd();
    reached = held->Reached(step, [&] {
      ended = looks();
      return ended;
    });
  }
  if (!reached) ThrowUnlessOk(ended);
  return reached;
}

nb::object Notify(PreemptionHandle& self, const std::string& source, std::string event,
                  std::optional<double> left, std::string text, Seconds timeout) {
  const std::shared_ptr<Preemption> preemption = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  absl::Status status;
  {
    WithoutGil without(self.closed());
    options.interrupted = without.LooksForEnd();
    std::optional<absl::Duration> span;
    if (left) span = absl::Seconds(*left);
    status = preemption->Notify(source, std::move(event), span, std::move(text), options);
  }
  ThrowUnlessOk(status);
  return nb::none();
}

nb::object Withdraw(PreemptionHandle& self, const std::string& source, std::string event,
                    Seconds timeout) {
  const std::shared_ptr<Preemption> preemption = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  absl::Status status;
  {
    WithoutGil without(self.closed());
    options.interrupted = without.LooksForEnd();
    status = preemption->Withdraw(source, std::move(event), options);
  }
  ThrowUnlessOk(status);
  return nb::none();
}

void OnNotice(PreemptionHandle& self, Ticket ticket) {
  self.Get()->OnNotice([ticket](const PreemptionNotice& notice) {
    Post(ticket, [notice] { return ToObject(notice); });
  });
}

}  // namespace

void BindPreemption(nb::module_& module) {
  nb::class_<PreemptionHandle>(module, "Preemption")
      .def("reached", &Reached, nb::arg("step"))
      .def(
          "saved",
          [](PreemptionHandle& self, int64_t step, std::string path) {
            self.Get()->Saved(step, std::move(path));
          },
          nb::arg("step"), nb::arg("path"))
      .def(
          "failed_to_save",
          [](PreemptionHandle& self, int64_t step, std::string why) {
            self.Get()->FailedToSave(step, std::move(why));
          },
          nb::arg("step"), nb::arg("why"))
      .def("notice", [](PreemptionHandle& self) { return ToObject(self.Get()->notice()); })
      .def("notify", &Notify, nb::arg("source"), nb::arg("event"), nb::arg("left").none(),
           nb::arg("text"), nb::arg("timeout").none())
      .def("withdraw", &Withdraw, nb::arg("source"), nb::arg("event"), nb::arg("timeout").none())
      .def("on_notice", &OnNotice, nb::arg("ticket"))
      .def("close", &PreemptionHandle::Close);
  module.def("open_preemption", &Open, nb::arg("member"), nb::arg("stride"),
             nb::arg("last_step").none(), nb::arg("save_estimate"), nb::arg("wait_max"),
             nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
