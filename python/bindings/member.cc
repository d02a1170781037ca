#include "lockstep/client/member.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <utility>

#include "calls.h"
#include "convert.h"
#include "handles.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using Members = std::vector<int32_t>;
using Texts = std::map<std::string, std::string>;

nb::object ToObject(const std::vector<MemberValue>& values) {
  nb::dict result;
  for (const MemberValue& value : values) result[nb::int_(value.member)] = ToBytes(value.value);
  return result;
}

nb::object ToObject(const std::vector<std::string>& values) {
  nb::list result;
  for (const std::string& value : values) result.append(ToBytes(value));
  return result;
}

nb::object ToObject(const std::vector<AliveMember>& members) {
  nb::list result;
  for (const AliveMember& member : members) {
    result.append(nb::make_tuple(member.member, member.incarnation));
  }
  return result;
}

nb::object Join(std::string address, std::string job, std::string role,
                std::optional<int32_t> index, int32_t size, int64_t attempt, std::string host,
                const Texts& labels, Seconds timeout, Seconds grace, std::optional<Ticket> ticket) {
  JoinOptions options{.address = std::move(address),
                      .job = std::move(job),
                      .role = std::move(role),
                      .index = index,
                      .size = size,
                      .attempt = attempt,
                      .host = std::move(host),
                      .labels = {labels.begin(), labels.end()},
                      .timeout = ToDuration(timeout),
                      .grace = ToDuration(grace)};
  return Call<std::shared_ptr<Member>>(
      ticket, nullptr,
      [&](Interrupted interrupted) -> absl::StatusOr<std::shared_ptr<Member>> {
        options.interrupted = std::move(interrupted);
        return lockstep::Join(std::move(options));
      },
      [&](auto done) {
        return JoinAsync(
            std::move(options),
            [done = std::move(done)](absl::StatusOr<std::unique_ptr<Member>> member) mutable {
              if (!member.ok()) return done(member.status());
              done(std::shared_ptr<Member>(*std::move(member)));
            });
      },
      [](std::shared_ptr<Member> member) {
        return nb::cast(new MemberHandle(std::move(member)), nb::rv_policy::take_ownership);
      });
}

nb::object Barrier(MemberHandle& self, std::string id, Seconds timeout, Members members,
                   std::optional<nb::bytes> value, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  BarrierOptions options{.timeout = ToDuration(timeout), .members = std::move(members)};
  if (value) options.value = FromBytes(*value);
  return Call<std::vector<MemberValue>>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->Barrier(std::move(id), std::move(options));
      },
      [&](auto done) {
        return member->BarrierAsync(std::move(id), std::move(options), std::move(done));
      },
      [](const auto& values) { return ToObject(values); });
}

nb::object Gather(MemberHandle& self, std::string id, const nb::bytes& value, Seconds timeout,
                  Members members, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  GatherOptions options{.timeout = ToDuration(timeout), .members = std::move(members)};
  std::string own = FromBytes(value);
  return Call<std::vector<std::string>>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->Gather(std::move(id), std::move(own), std::move(options));
      },
      [&](auto done) {
        return member->GatherAsync(std::move(id), std::move(own), std::move(options),
                                   std::move(done));
      },
      [](const auto& values) { return ToObject(values); });
}

nb::object CancelBarrier(MemberHandle& self, std::string id, Seconds timeout,
                         std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  return CallForNothing(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->CancelBarrier(std::move(id), std::move(options));
      },
      [&](auto done) {
        return member->CancelBarrierAsync(std::move(id), std::move(options), std::move(done));
      });
}

nb::object Agree(MemberHandle& self, std::string name, int64_t index, int64_t stride,
                 Seconds timeout, Members members, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  AgreeOptions options{
      .stride = stride, .timeout = ToDuration(timeout), .members = std::move(members)};
  return Call<int64_t>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->AgreeOnIndex(std::move(name), index, std::move(options));
      },
      [&](auto done) {
        return member->AgreeOnIndexAsync(std::move(name), index, std::move(options),
                                         std::move(done));
      },
      [](int64_t agreed) { return nb::cast(agreed); });
}

nb::object Alive(MemberHandle& self, Members members, Seconds timeout,
                 std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  AliveOptions options{.members = std::move(members), .timeout = ToDuration(timeout)};
  return Call<std::vector<AliveMember>>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->AliveMembers(std::move(options));
      },
      [&](auto done) { return member->AliveMembersAsync(std::move(options), std::move(done)); },
      [](const auto& alive) { return ToObject(alive); });
}

nb::object Barriers(MemberHandle& self, Seconds timeout, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<OpenBarriers>(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->Barriers(std::move(options));
      },
      [&](auto done) { return member->BarriersAsync(std::move(options), std::move(done)); },
      [](const OpenBarriers& listed) -> nb::object {
        nb::list barriers;
        for (const OpenBarrier& barrier : listed.barriers) {
          std::optional<double> left;
          if (barrier.time_left) left = absl::ToDoubleSeconds(*barrier.time_left);
          barriers.append(nb::make_tuple(ToText(barrier.id), barrier.counter,
                                         absl::ToDoubleSeconds(barrier.open_for), left,
                                         barrier.waiting, barrier.awaited));
        }
        return nb::make_tuple(barriers, listed.open);
      });
}

nb::object ReportError(MemberHandle& self, int code, const std::string& text, Seconds timeout,
                       std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  const absl::Status error(static_cast<absl::StatusCode>(code), text);
  CallOptions options{.timeout = ToDuration(timeout)};
  return CallForNothing(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->ReportError(error, std::move(options));
      },
      [&](auto done) {
        return member->ReportErrorAsync(error, std::move(options), std::move(done));
      });
}

nb::object Leave(MemberHandle& self, Seconds timeout, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  CallOptions options{.timeout = ToDuration(timeout)};
  return CallForNothing(
      ticket, self.closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return member->Leave(std::move(options));
      },
      [&](auto done) { return member->LeaveAsync(std::move(options), std::move(done)); });
}

// Posts the error itself, not as a failed call.
void OnError(MemberHandle& self, Ticket ticket) {
  self.Get()->OnError([ticket](absl::Status error) {
    Post(ticket, [error = std::move(error)] { return ErrorObject(error); });
  });
}

JobWatchHandle* WatchJob(MemberHandle& self, std::optional<Ticket> ticket) {
  const std::shared_ptr<Member> member = self.Get();
  if (!ticket) return new JobWatchHandle(member->WatchJob());
  return new JobWatchHandle(
      member->OnJobChange([ticket = *ticket](absl::StatusOr<JobChange> change) {
        Post(ticket, [change = std::move(change)]() mutable {
          return python::ToObject(ValueOrThrow(std::move(change)));
        });
      }));
}

}  // namespace

void BindMember(nb::module_& module) {
  const auto no_ticket = nb::arg("ticket").none() = nb::none();
  module.def("join", &Join, nb::arg("address"), nb::arg("job"), nb::arg("role"),
             nb::arg("index").none(), nb::arg("size"), nb::arg("attempt"), nb::arg("host"),
             nb::arg("labels"), nb::arg("timeout").none(), nb::arg("grace").none(), no_ticket);
  nb::class_<MemberHandle>(module, "Member")
      .def_prop_ro("job", [](MemberHandle& self) { return self.Get()->job(); })
      .def_prop_ro("role", [](MemberHandle& self) { return self.Get()->role(); })
      .def_prop_ro("index", [](MemberHandle& self) { return self.Get()->index(); })
      .def_prop_ro("member", [](MemberHandle& self) { return self.Get()->member(); })
      .def_prop_ro("size", [](MemberHandle& self) { return self.Get()->size(); })
      .def_prop_ro("name", [](MemberHandle& self) { return self.Get()->name(); })
      .def_prop_ro("attempt", [](MemberHandle& self) { return self.Get()->attempt(); })
      .def("barrier", &Barrier, nb::arg("id"), nb::arg("timeout").none(), nb::arg("members"),
           nb::arg("value").none(), no_ticket)
      .def("gather", &Gather, nb::arg("id"), nb::arg("value"), nb::arg("timeout").none(),
           nb::arg("members"), no_ticket)
      .def("cancel_barrier", &CancelBarrier, nb::arg("id"), nb::arg("timeout").none(), no_ticket)
      .def("agree", &Agree, nb::arg("name"), nb::arg("index"), nb::arg("stride"),
           nb::arg("timeout").none(), nb::arg("members"), no_ticket)
      .def("barriers", &Barriers, nb::arg("timeout").none(), no_ticket)
      .def("alive", &Alive, nb::arg("members"), nb::arg("timeout").none(), no_ticket)
      .def(
          "progress",
          [](MemberHandle& self, int64_t step, const std::string& phase) {
            self.Get()->ReportProgress(step, phase);
          },
          nb::arg("step"), nb::arg("phase"))
      .def("report_error", &ReportError, nb::arg("code"), nb::arg("text"),
           nb::arg("timeout").none(), no_ticket)
      .def("leave", &Leave, nb::arg("timeout").none(), no_ticket)
      .def("on_error", &OnError, nb::arg("ticket"))
      .def("watch_job", &WatchJob, no_ticket, nb::rv_policy::take_ownership)
      .def("keys", [](MemberHandle& self) { return KeysHandle(self.Get()->keys()); })
      .def("close", &MemberHandle::Close);
}

}  // namespace lockstep::python
