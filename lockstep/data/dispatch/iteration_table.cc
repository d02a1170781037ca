#include "lockstep/data/dispatch/iteration_table.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "lockstep/data/dispatch/cursor.h"

namespace lockstep::dispatch {

namespace {

bool HasConsumer(const IterationLedger& ledger, const OpenIteration& request) {
  const ConsumerEntry* const consumer = ledger.Find(request.consumer);
  return consumer != nullptr && consumer->life == request.life;
}

}  // namespace

Iteration* IterationTable::Find(IterationId id) const {
  const auto found = iterations_.find(id);
  return found == iterations_.end() ? nullptr : found->second.get();
}

Iteration* IterationTable::FindOpened(const OpenIteration& request) const {
  if (!request.spec.name.empty()) {
    const auto key = by_key_.find({request.spec.name, request.spec.repetition});
    return key == by_key_.end() ? nullptr : Find(key->second);
  }
  // Only the process can tell: each of them is for one consumer.
  Iteration* latest = nullptr;
  for (const auto& [id, iteration] : iterations_) {
    if (absl::StartsWith(iteration->spec().name, kAnonymous) &&
        HasConsumer(iteration->ledger(), request)) {
      // The one with the highest id: whoever asks again asks for its newest.
      latest = iteration.get();
    }
  }
  return latest;
}

size_t IterationTable::CountOf(DatasetId dataset) const {
  return static_cast<size_t>(
      std::count_if(iterations_.begin(), iterations_.end(),
                    [&](const auto& entry) { return entry.second->spec().dataset == dataset; }));
}

bool IterationTable::AnyResolving(DatasetId dataset) const {
  return std::any_of(iterations_.begin(), iterations_.end(), [&](const auto& entry) {
    return entry.second->spec().dataset == dataset && entry.second->phase() == Phase::kResolving;
  });
}

absl::Status IterationTable::Apply(const record::IterationOpened& r) {
  // No id of a former life is given again.
  state_.ids.Note(r.iteration.value());
  Cursor start{.mode = r.spec.mode};
  if (!r.spec.cursor.empty()) {
    const std::variant<Cursor, ErrorPtr> decoded = DecodeCursor(r.spec.cursor);
    if (!std::holds_alternative<Cursor>(decoded)) {
      // It was checked before it was recorded, so the record is damaged.
      return absl::InvalidArgumentError("an iteration begins at what is no cursor");
    }
    start = std::get<Cursor>(decoded);
  }
  by_key_[{r.spec.name, r.spec.repetition}] = r.iteration;
  iterations_[r.iteration] =
      std::make_unique<Iteration>(state_, r.iteration, r.spec, std::move(start));
  return absl::OkStatus();
}

absl::Status IterationTable::Apply(const record::IterationCollected& r) {
  const Iteration* const iteration = Find(r.iteration);
  if (iteration == nullptr) return absl::InvalidArgumentError("the iteration is not known");
  by_key_.erase({iteration->spec().name, iteration->spec().repetition});
  // Nothing of it is to be settled any more.
  state_.touched.erase(r.iteration);
  iterations_.erase(r.iteration);
  return absl::OkStatus();
}

}  // namespace lockstep::dispatch
