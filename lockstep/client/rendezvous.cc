#include "lockstep/client/rendezvous.h"

#include <cstring>
#include <utility>

#include "lockstep/client/rendezvous_hub.h"
#include "lockstep/rendezvous/transport/copy.h"

namespace lockstep {
namespace {

using rendezvous::Value;

class Borrowed final : public rendezvous::Memory {
 public:
  Borrowed(const void* data, size_t bytes, std::function<void()> release)
      : Memory(static_cast<const std::byte*>(data), bytes), release_(std::move(release)) {}
  ~Borrowed() override {
    if (release_) release_();
  }

 private:
  const std::function<void()> release_;
};

Value ToValue(const Tensor& tensor) {
  return {.about = tensor.about(), .bytes = tensor.bytes().size(), .memory = tensor.memory()};
}

}  // namespace

Tensor Tensor::Copy(std::string_view bytes) {
  auto text = std::make_shared<std::string>(bytes);
  return Borrow({.shape = {static_cast<int64_t>(bytes.size())}}, text->data(), text->size(),
                [text] {});
}

Tensor Tensor::Borrow(Description about, const void* data, size_t bytes,
                      std::function<void()> release) {
  return Tensor(std::move(about), std::make_shared<Borrowed>(data, bytes, std::move(release)));
}

std::span<const std::byte> Tensor::bytes() const {
  if (memory_ == nullptr) return {};
  return {memory_->data(), memory_->bytes()};
}

std::string_view Tensor::text() const {
  return {reinterpret_cast<const char*>(bytes().data()), bytes().size()};
}

absl::Status Step::Send(std::string_view name, int32_t to, Tensor value, SendOptions options) {
  return hub_->Send(number_, name, to, ToValue(value), options);
}

absl::Status Step::SendDead(std::string_view name, int32_t to, std::string why) {
  return hub_->Send(number_, name, to, {.dead = true, .why_dead = std::move(why)}, {});
}

absl::Status Step::SendAcked(std::string_view name, int32_t to, Tensor value, CallOptions options) {
  return hub_->SendAcked(number_, name, to, ToValue(value), options);
}

Pending Step::SendAckedAsync(std::string_view name, int32_t to, Tensor value, CallOptions options,
                             Completion<void> done) {
  return hub_->SendAckedAsync(number_, name, to, ToValue(value), options, std::move(done));
}

absl::StatusOr<Received> Step::Recv(std::string_view name, int32_t from, CallOptions options) {
  return hub_->Receive(number_, name, from, std::nullopt, options);
}

Pending Step::RecvAsync(std::string_view name, int32_t from, CallOptions options,
                        Completion<Received> done) {
  return hub_->ReceiveAsync(number_, name, from, options, std::move(done));
}

absl::Status Step::RecvInto(std::string_view name, int32_t from, std::span<std::byte> into,
                            CallOptions options) {
  const auto received = hub_->Receive(number_, name, from, into, options);
  if (!received.ok()) return received.status();
  // Without memory: it came into this one.
  if (received->tensor.memory() == nullptr) return absl::OkStatus();
  transport::CopyBytes(into.data(), received->tensor.bytes().data(), into.size());
  return absl::OkStatus();
}

absl::Status Step::Abort(absl::Status why) { return hub_->Abort(number_, why); }
void Step::Close() { hub_->CloseStep(number_); }

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Open(Member& member,
                                                             RendezvousOptions options) {
  auto hub = client::RendezvousHub::Start(member, options);
  if (!hub.ok()) return hub.status();
  return std::unique_ptr<Rendezvous>(new Rendezvous(*std::move(hub)));
}

Rendezvous::~Rendezvous() {
  if (!hub_->here()) {
    // In a forked child nothing of it may be touched, not even to destroy it.
    new std::shared_ptr<client::RendezvousHub>(std::move(hub_));
    return;
  }
  hub_->Close();
}

absl::StatusOr<Step> Rendezvous::OpenStep(int64_t number) {
  if (absl::Status status = hub_->OpenStep(number); !status.ok()) return status;
  return Step(hub_, number);
}

std::vector<PeerTransport> Rendezvous::Transports() const { return hub_->Transports(); }

RendezvousCounters Rendezvous::Counters() const { return hub_->Counters(); }

absl::StatusOr<NewTensor> Rendezvous::Allocate(Description about) {
  const auto bytes = rendezvous::BytesOf(about.type, about.shape);
  if (!bytes.ok()) return bytes.status();
  auto block = hub_->Allocate(*bytes);
  if (!block.ok()) return block.status();
  const std::span<std::byte> memory((*block)->mutable_data(), *bytes);
  return NewTensor(std::move(about), *std::move(block), memory);
}

}  // namespace lockstep
