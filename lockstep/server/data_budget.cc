#include "lockstep/server/data_budget.h"

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

// What a worker that is known costs, and a request that is parked.
constexpr size_t kWorkerBytes = 2048;
constexpr size_t kCallBytes = 512;
// What an iteration costs that is opened, with a consumer.
constexpr size_t kOpenBytes = 8192;
// A snapshot of the journal has all of them once more.
constexpr size_t kCopiesKept = 2;

}  // namespace

DataBudget::DataBudget(runtime::MemoryAccount& memory)
    : memory_(memory),
      share_(&memory, "the data service", "datasets"),
      iterations_share_(&memory, "the data service", "iterations and consumers") {}

absl::Status DataBudget::Refusal(size_t bytes) const {
  return wire::native::WithReason(
      absl::ResourceExhaustedError(absl::StrCat(memory_.Refusal(bytes), "; nothing was changed")),
      "memory_max");
}

absl::Status DataBudget::CheckRoom(size_t bytes, bool in_journal) const {
  // As it came, as it is kept, and as an entry of the journal.
  const size_t copies = in_journal ? 1 + kCopiesKept : 2;
  return memory_.HasRoom(copies * bytes) ? absl::OkStatus() : Refusal(copies * bytes);
}

absl::Status DataBudget::CheckRoom(const dispatch::OpenIteration& request, bool in_journal) const {
  // Who goes on where it was is no new work.
  const bool comes_back = !request.have.empty() || request.from.has_value();
  if (comes_back && memory_.HasReserve()) return absl::OkStatus();
  return CheckRoom(kOpenBytes + request.spec.cursor.size(), in_journal);
}

absl::Status DataBudget::CheckRoom(const dispatch::WorkerPoll& request, bool is_known,
                                   bool in_journal) const {
  size_t manifests = 0;
  for (const dispatch::ResolveReport& each : request.resolved) manifests += each.manifest.size();
  if (manifests > 0) return CheckRoom(manifests, in_journal);
  // One that comes back after its link broke is not known here, and no new work.
  if (is_known || memory_.HasReserve()) return absl::OkStatus();
  return Refusal(kWorkerBytes);
}

void DataBudget::Set(const DataUse& use, bool in_journal) {
  const size_t copies = in_journal ? kCopiesKept : 1;
  share_.Set(copies * kept_.datasets() + use.bytes);
  iterations_share_.Set(copies * kept_.iterations() + use.workers * kWorkerBytes +
                        use.calls * kCallBytes);
}

}  // namespace lockstep::server
