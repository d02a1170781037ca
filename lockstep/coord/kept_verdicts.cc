#include "lockstep/coord/kept_verdicts.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// What a verdict costs beside what it holds: its node, its places, its error.
constexpr size_t kVerdictBytes = 640;

// Tables larger than this are not checked as a whole at each step.
constexpr size_t kCheckedMax = 32;

size_t BytesOf(const MemberValues& values) {
  size_t bytes = 0;
  if (values == nullptr) return bytes;
  for (const MemberValue& value : *values) bytes += value.value.size();
  return bytes;
}

}  // namespace

std::vector<MemberIndex> ListedMembers(const JobRecord& job, const Participants& participants) {
  // Everybody is not listed, so that records stay small in large jobs.
  if (!participants || participants->size() == job.everybody->size()) return {};
  return *participants;
}

const KeptVerdicts::Verdict* KeptVerdicts::Find(const std::string& id) const {
  const auto found = verdicts_.find(id);
  return found == verdicts_.end() ? nullptr : &found->second.verdict;
}

void KeptVerdicts::Keep(const std::string& id, Verdict verdict) {
  const auto [at, is_new] = verdicts_.try_emplace(id);
  Kept& kept = at->second;
  LOCKSTEP_DCHECK(is_new || kept.verdict.counter < verdict.counter);
  // It goes to the end of the list: it is the newest now.
  if (!is_new && !kept.held) oldest_first_.erase(kept.place);
  // The values of the last instance go with its verdict.
  DropValues(kept);
  kept.held = false;
  kept.verdict = std::move(verdict);
  kept.place = oldest_first_.insert(oldest_first_.end(), at);
  kept.values_bytes = BytesOf(kept.verdict.values);
  values_bytes_ += kept.values_bytes;
  if (kept.verdict.values) {
    kept.values_place = oldest_values_first_.insert(oldest_values_first_.end(), at);
  }
  Count(id, kept);
  // Only now: what was brought to this instance may be more than there is room for by itself.
  while (values_bytes_ > job_.options.kept_barrier_values_bytes_max) {
    LOCKSTEP_DCHECK(!oldest_values_first_.empty());
    const auto oldest = oldest_values_first_.front();
    DropValues(oldest->second);
    oldest->second.verdict.values_forgotten = true;
    Count(oldest->first, oldest->second);
  }
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptVerdicts::Hold(const std::string& id) {
  Kept& kept = verdicts_.at(id);
  LOCKSTEP_CHECK(!kept.held);
  // While it is open it must not be forgotten: its counter is needed for the next one.
  oldest_first_.erase(kept.place);
  kept.held = true;
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptVerdicts::Release(const std::string& id) {
  const auto at = verdicts_.find(id);
  if (at == verdicts_.end()) return;
  LOCKSTEP_CHECK(at->second.held);
  at->second.held = false;
  // As the newest: the id was in use a moment ago.
  at->second.place = oldest_first_.insert(oldest_first_.end(), at);
  LOCKSTEP_DCHECK(InvariantsHold());
}

void KeptVerdicts::ForgetOldest() {
  while (oldest_first_.size() > job_.options.kept_barriers_max) {
    const auto oldest = oldest_first_.front();
    LOCKSTEP_DCHECK(!oldest->second.held && memory_ >= oldest->second.cost);
    // Before the verdict: the sums are of what is there.
    DropValues(oldest->second);
    memory_ -= oldest->second.cost;
    // The place first: it holds the iterator that `erase` invalidates.
    oldest_first_.pop_front();
    verdicts_.erase(oldest);
  }
  // Told from what is left, so that it outlives a snapshot.
  if (oldest_first_.size() >= job_.options.kept_barriers_max) forgot_some_ = true;
  LOCKSTEP_DCHECK(InvariantsHold());
}

// The caller counts what is left.
void KeptVerdicts::DropValues(Kept& kept) {
  if (!kept.verdict.values) return;
  LOCKSTEP_DCHECK(values_bytes_ >= kept.values_bytes);
  values_bytes_ -= std::exchange(kept.values_bytes, 0);
  oldest_values_first_.erase(kept.values_place);
  kept.verdict.values = nullptr;
}

void KeptVerdicts::Count(const std::string& id, Kept& kept) {
  size_t cost = kVerdictBytes + 4 * id.size() + kept.values_bytes;
  const Participants& participants = kept.verdict.participants;
  if (participants != nullptr && participants != job_.everybody) {
    cost += participants->size() * sizeof(MemberIndex);
  }
  memory_ += cost - std::exchange(kept.cost, cost);
}

void KeptVerdicts::Snapshot(std::vector<TimedRecord>& out) const {
  const auto add = [&](const std::string& id, const Verdict& verdict) {
    out.push_back(
        {Time(), record::BarrierEnded{.id = id,
                                      .counter = verdict.counter,
                                      .members = ListedMembers(job_, verdict.participants),
                                      .verdict = verdict.error,
                                      .values = verdict.values,
                                      .values_forgotten = verdict.values_forgotten}});
  };
  for (const auto& at : oldest_first_) add(at->first, at->second.verdict);
  for (const auto& [id, kept] : verdicts_) {
    // As the newest, since whoever replays this knows of no open instance.
    if (kept.held) add(id, kept.verdict);
  }
}

bool KeptVerdicts::InvariantsHold() const {
  if (verdicts_.size() > kCheckedMax) return true;
  size_t held = 0, with_values = 0, bytes = 0, cost = 0;
  for (const auto& [id, kept] : verdicts_) {
    held += kept.held;
    with_values += kept.verdict.values != nullptr;
    bytes += BytesOf(kept.verdict.values);
    cost += kept.cost;
  }
  LOCKSTEP_CHECK(held + oldest_first_.size() == verdicts_.size());  // (1)
  LOCKSTEP_CHECK(with_values == oldest_values_first_.size());       // (2)
  LOCKSTEP_CHECK(bytes == values_bytes_);                           // (3)
  LOCKSTEP_CHECK(bytes <= job_.options.kept_barrier_values_bytes_max);
  LOCKSTEP_CHECK(cost == memory_);  // (4)
  return true;
}

}  // namespace lockstep::coord
