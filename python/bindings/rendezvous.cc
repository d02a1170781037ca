#include "lockstep/client/rendezvous.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.h"
#include "calls.h"
#include "handles.h"
#include "lockstep/rendezvous/transport/copy.h"
#include "member.h"
#include "tensors.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using RendezvousHandle = Handle<Rendezvous>;

// Up to here a value travels beside its key, and needs no memory that others see.
constexpr uint64_t kBesideBytesMax = 8192;

// A step keeps the Python object of its rendezvous, not the rendezvous open.
struct StepHandle {
  nb::object owner;
  RendezvousHandle* rendezvous;
  Step step;
};

RendezvousHandle* Open(MemberHandle& member, std::optional<uint64_t> quota_bytes,
                       bool shared_memory, bool process_memory) {
  const std::shared_ptr<Member> held = member.Get();
  RendezvousOptions options{.shared_memory = shared_memory, .process_memory = process_memory};
  if (quota_bytes) options.quota_bytes = *quota_bytes;
  absl::StatusOr<std::unique_ptr<Rendezvous>> opened = absl::UnknownError("");
  {
    WithoutGil without(member.closed());
    options.interrupted = without.LooksForEnd();
    opened = Rendezvous::Open(*held, options);
  }
  return new RendezvousHandle(ValueOrThrow(std::move(opened)));
}

nb::object OpenStep(nb::handle_t<RendezvousHandle> self, int64_t number) {
  auto* rendezvous = nb::inst_ptr<RendezvousHandle>(self);
  Step step = ValueOrThrow(rendezvous->Get()->OpenStep(number));
  return nb::cast(new StepHandle{nb::borrow(self), rendezvous, std::move(step)},
                  nb::rv_policy::take_ownership);
}

nb::list Transports(RendezvousHandle& self) {
  const std::shared_ptr<Rendezvous> rendezvous = self.Get();
  std::vector<PeerTransport> transports;
  {
    const WithoutGil without(self.closed());
    transports = rendezvous->Transports();
  }
  nb::list result;
  for (const PeerTransport& peer : transports) {
    result.append(
        nb::make_tuple(peer.member, peer.transport, peer.why_not_shared, peer.why_not_read));
  }
  return result;
}

nb::dict Counters(RendezvousHandle& self) {
  const std::shared_ptr<Rendezvous> rendezvous = self.Get();
  RendezvousCounters counters;
  {
    const WithoutGil without(self.closed());
    counters = rendezvous->Counters();
  }
  nb::dict result;
  result["sent_values"] = counters.sent_values;
  result["sent_bytes"] = counters.sent_bytes;
  result["received_values"] = counters.received_values;
  result["received_bytes"] = counters.received_bytes;
  result["waits"] = counters.waits;
  result["oldest_wait_seconds"] = absl::ToDoubleSeconds(counters.oldest_wait);
  result["held_values"] = counters.held_values;
  result["held_bytes"] = counters.held_bytes;
  result["arena_reserved_bytes"] = counters.arena_reserved_bytes;
  result["arena_used_bytes"] = counters.arena_used_bytes;
  result["refused_connections"] = counters.refused_connections;
  return result;
}

NewObject* Allocate(RendezvousHandle& self, std::vector<int64_t> shape, const std::string& type) {
  const std::shared_ptr<Rendezvous> rendezvous = self.Get();
  Description about{.type = TypeNamed(type), .shape = std::move(shape)};
  absl::StatusOr<NewTensor> made = absl::UnknownError("");
  {
    WithoutGil without(self.closed());
    made = rendezvous->Allocate(std::move(about));
  }
  const NewTensor fresh = ValueOrThrow(std::move(made));
  return new NewObject(fresh.Finish(), fresh.bytes().data());
}

// The bytes in memory of their own.
Tensor SmallTensor(const Array& array) {
  auto bytes = std::make_shared<std::vector<std::byte>>(array.bytes());
  array.CopyTo(bytes->data());
  return Tensor::Borrow(array.about(), bytes->data(), bytes->size(), [bytes] {});
}

// What is sent, made of what the caller gave: a tensor is shared, anything else copied once.
class Outgoing {
 public:
  explicit Outgoing(nb::handle value) : value_(value) {
    if (nb::isinstance<NewObject>(value)) {
      ready_ = nb::cast<NewObject&>(value).tensor();
    } else if (nb::isinstance<ReceivedObject>(value)) {
      const auto& received = nb::cast<ReceivedObject&>(value);
      ThrowUnlessOk(received.Alive());
      ready_ = received.tensor();
    } else {
      array_.emplace(value, Array::Access::kRead);
    }
  }

  // Without the GIL.
  absl::StatusOr<Tensor> Take(Rendezvous& rendezvous) {
    if (!array_) return ready_;
    if (array_->bytes() <= kBesideBytesMax) return SmallTensor(*array_);
    auto made = rendezvous.Allocate(array_->about());
    if (!made.ok()) return made.status();
    array_->CopyTo(made->bytes().data());
    return made->Finish();
  }

  // With it, once it was sent.
  void Sent() {
    if (nb::isinstance<NewObject>(value_)) nb::cast<NewObject&>(value_).Sent();
  }

 private:
  nb::handle value_;
  Tensor ready_;
  std::optional<Array> array_;
};

void Send(StepHandle& self, const std::string& name, nb::handle value, int32_t to, Seconds wait) {
  const std::shared_ptr<Rendezvous> rendezvous = self.rendezvous->Get();
  Step step = self.step;
  Outgoing outgoing(value);
  absl::Status status;
  {
    WithoutGil without(self.rendezvous->closed());
    auto tensor = outgoing.Take(*rendezvous);
    status =
        tensor.ok()
            ? step.Send(name, to, *std::move(tensor),
                        {.wait_for_room = ToDuration(wait), .interrupted = without.LooksForEnd()})
            : tensor.status();
  }
  ThrowUnlessOk(status);
  outgoing.Sent();
}

nb::object SendAcked(StepHandle& self, const std::string& name, nb::handle value, int32_t to,
                     Seconds timeout, std::optional<Ticket> ticket) {
  const std::shared_ptr<Rendezvous> rendezvous = self.rendezvous->Get();
  Step step = self.step;
  Outgoing outgoing(value);
  absl::StatusOr<Tensor> tensor = absl::UnknownError("");
  {
    WithoutGil without(self.rendezvous->closed());
    tensor = outgoing.Take(*rendezvous);
  }
  ThrowUnlessOk(tensor.status());
  outgoing.Sent();
  CallOptions options{.timeout = ToDuration(timeout)};
  return CallForNothing(
      ticket, self.rendezvous->closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return step.SendAcked(name, to, *std::move(tensor), std::move(options));
      },
      [&](auto done) {
        return step.SendAckedAsync(name, to, *std::move(tensor), std::move(options),
                                   std::move(done));
      });
}

void SendDead(StepHandle& self, const std::string& name, int32_t to, std::string why) {
  const std::shared_ptr<Rendezvous> rendezvous = self.rendezvous->Get();
  Step step = self.step;
  absl::Status status;
  {
    WithoutGil without(self.rendezvous->closed());
    status = step.SendDead(name, to, std::move(why));
  }
  ThrowUnlessOk(status);
}

nb::object Recv(StepHandle& self, const std::string& name, int32_t source, Seconds timeout,
                std::optional<Ticket> ticket) {
  const std::shared_ptr<Rendezvous> rendezvous = self.rendezvous->Get();
  Step step = self.step;
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<Received>(
      ticket, self.rendezvous->closed(),
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return step.Recv(name, source, std::move(options));
      },
      [&](auto done) { return step.RecvAsync(name, source, std::move(options), std::move(done)); },
      [](Received received) {
        return nb::cast(new ReceivedObject(std::move(received)), nb::rv_policy::take_ownership);
      });
}

void RecvInto(StepHandle& self, const std::string& name, nb::handle array, int32_t source,
              Seconds timeout) {
  const std::shared_ptr<Rendezvous> rendezvous = self.rendezvous->Get();
  Step step = self.step;
  const Array into(array, Array::Access::kWrite);
  if (!into.contiguous()) {
    throw nb::type_error(
        "what is received into lies in C order without gaps: receive, and assign it");
  }
  CallOptions options{.timeout = ToDuration(timeout)};
  absl::Status status;
  {
    WithoutGil without(self.rendezvous->closed());
    options.interrupted = without.LooksForEnd();
    status = step.RecvInto(name, source, {into.data(), into.bytes()}, std::move(options));
  }
  ThrowUnlessOk(status);
}

template <class Act>
void WithStep(StepHandle& self, const Act& act) {
  Step step = self.step;
  const nb::gil_scoped_release release;
  act(step);
}

}  // namespace

void BindRendezvous(nb::module_& module) {
  const auto no_ticket = nb::arg("ticket").none() = nb::none();
  const auto timeout = nb::arg("timeout").none();
  nb::class_<RendezvousHandle>(module, "Rendezvous")
      .def("step", &OpenStep, nb::arg("number"))
      .def("empty", &Allocate, nb::arg("shape"), nb::arg("dtype"), nb::rv_policy::take_ownership)
      .def("transports", &Transports)
      .def("counters", &Counters)
      .def("close", &RendezvousHandle::Close);
  nb::class_<StepHandle>(module, "Step")
      .def("send", &Send, nb::arg("name"), nb::arg("value").none(), nb::arg("to"),
           nb::arg("wait").none())
      .def("send_acked", &SendAcked, nb::arg("name"), nb::arg("value").none(), nb::arg("to"),
           timeout, no_ticket)
      .def("send_dead", &SendDead, nb::arg("name"), nb::arg("to"), nb::arg("reason"))
      .def("recv", &Recv, nb::arg("name"), nb::arg("source"), timeout, no_ticket)
      .def("recv_into", &RecvInto, nb::arg("name"), nb::arg("array").none(), nb::arg("source"),
           timeout)
      .def(
          "abort",
          [](StepHandle& self, int code, const std::string& text) {
            const absl::Status why(static_cast<absl::StatusCode>(code), text);
            WithStep(self, [&](Step& step) { step.Abort(why); });
          },
          nb::arg("code"), nb::arg("text"))
      .def("close", [](StepHandle& self) { WithStep(self, [](Step& step) { step.Close(); }); });
  module.def("open_rendezvous", &Open, nb::arg("member"), nb::arg("quota_bytes").none(),
             nb::arg("shared_memory"), nb::arg("process_memory"), nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
