#include "lockstep/client/worker_links.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "lockstep/base/check.h"
#include "lockstep/client/worker_answer.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_messages.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {
namespace {

namespace native = wire::native;

// By TLS and with the worker's secret, if it has one. Never with a token of this process: workers
// choose their own addresses.
std::shared_ptr<RedialedLink> LinkTo(asio::io_context& io, const dispatch::WorkerAddress& worker) {
  // An address that cannot be read is one that cannot be reached.
  auto parsed = runtime::ParseAddress(worker.address);
  runtime::Address address =
      parsed.ok() ? *std::move(parsed) : runtime::Address{.host = worker.address, .port = 0};
  const auto card = native::Decode<native::Card>(worker.host_card);
  std::string token;
  address.fingerprint.clear();
  if (card.ok() && !card->fingerprint.empty()) {
    address.fingerprint = card->fingerprint;
    token = absl::BytesToHexString(card->secret.data);
  }
  return std::make_shared<RedialedLink>(io, link::Servers::Of(address), "lockstep reader",
                                        std::move(token));
}

}  // namespace

void WorkerLinks::Read(dispatch::SendRead read, Answered answered) {
  if (ended_) return;
  Worker& worker = Find(read.worker);
  ++worker.reads;
  worker.last_read = ++reads_asked_;
  if (worker.memory->TakeWish()) ShareMemory(KeyOf(read.worker), worker);
  native::ReadSegment ask{
      .dataset = read.dataset.value(),
      .segment = read.segment,
      .from = read.from,
      .stride = static_cast<uint32_t>(read.stride),
      .elements_max = static_cast<uint32_t>(std::max<int64_t>(0, read.max_elements)),
      .bytes_max = read.max_bytes,
      .memory = worker.memory->memory(),
      .ahead = static_cast<uint64_t>(std::max<int64_t>(0, read.ahead))};
  if (ask.memory != 0) ask.released = worker.memory->TakeReleased();
  worker.link->Call(
      native::KindOf<native::ReadSegment>::kKind, native::Encode(ask),
      [weak = weak_from_this(), read = std::move(read), answered = std::move(answered)](
          absl::StatusOr<std::string> answer, bool reached) mutable {
        const auto self = weak.lock();
        if (self == nullptr || self->ended_) return;
        self->TakeAnswer(std::move(read), std::move(answer), reached, std::move(answered));
      });
}

void WorkerLinks::ShareMemory(const std::string& key, Worker& worker) {
  worker.link->Call(
      native::KindOf<native::ShareMemory>::kKind, native::Encode(native::ShareMemory{}),
      [weak = weak_from_this(), key](const absl::StatusOr<std::string>& answer, bool /*reached*/) {
        const auto self = weak.lock();
        if (self == nullptr || self->ended_) return;
        const auto found = self->workers_.find(key);
        if (found != self->workers_.end()) found->second.memory->Opened(answer);
      });
}

void WorkerLinks::TakeAnswer(dispatch::SendRead read, absl::StatusOr<std::string> answer,
                             bool reached, Answered answered) {
  Worker& worker = Find(read.worker);
  LOCKSTEP_DCHECK(worker.reads > 0);
  --worker.reads;
  // With the link goes what came over it of leases; and who answers there next may be another
  // process. What was given out stays good.
  if (!reached) worker.memory = std::make_unique<WorkerMemory>(io_, read.worker.host_card);
  auto checked = CheckWorkerAnswer(
      read, std::move(answer), reached,
      [&](const native::ChunkPlace& place) { return worker.memory->View(place); });
  if (!checked) return Read(std::move(read), std::move(answered));
  Count(*checked);
  answered(std::move(checked->event));
}

void WorkerLinks::Count(const WorkerAnswer& answer) {
  if (answer.form == native::AnswerForm::kPrepared) return;
  const auto& event = std::get<dispatch::ReadAnswered>(answer.event);
  const MutexLock lock(mutex_);
  ++totals_.reads;
  if (answer.form == native::AnswerForm::kShared) {
    totals_.shared_elements += static_cast<int64_t>(event.elements.size());
  }
}

WorkerLinks::Totals WorkerLinks::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

WorkerLinks::Worker& WorkerLinks::Find(const dispatch::WorkerAddress& worker) {
  const std::string key = KeyOf(worker);
  if (const auto known = workers_.find(key); known != workers_.end()) return known->second;
  if (static_cast<int64_t>(workers_.size()) >= links_max_) ForgetOne();
  Worker& made = workers_[key];
  made.link = LinkTo(io_, worker);
  made.memory = std::make_unique<WorkerMemory>(io_, worker.host_card);
  return made;
}

void WorkerLinks::ForgetOne() {
  auto oldest = workers_.end();
  for (auto it = workers_.begin(); it != workers_.end(); ++it) {
    if (it->second.reads > 0) continue;
    if (oldest == workers_.end() || it->second.last_read < oldest->second.last_read) oldest = it;
  }
  if (oldest == workers_.end()) return;
  oldest->second.link->End();
  workers_.erase(oldest);
}

void WorkerLinks::End() {
  ended_ = true;
  for (auto& [address, worker] : workers_) worker.link->End();
  workers_.clear();
}

}  // namespace lockstep::client
