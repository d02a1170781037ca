#include "lockstep/stock/tcpstore/attempts.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::tcpstore {

absl::Status Attempts::Apply(const Record& record) {
  if (const auto* opened = std::get_if<record::Opened>(&record)) {
    if (opened->attempt < 1 || opened->attempt > kAttemptMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("attempt ", opened->attempt, " of a store, of 1 to ", kAttemptMax));
    }
    // Nobody knows of the new store until a later record says so.
    restored_ = *opened;
    used_ = false;
  }
  if (!restored_) {
    return absl::InvalidArgumentError("a record of a store for torch's clients that did not begin");
  }
  if (std::holds_alternative<record::Used>(record)) used_ = true;
  return absl::OkStatus();
}

Attempts::Begin Attempts::Start() {
  LOCKSTEP_DCHECK(!written_ && port_ == 0);  // nothing of this life has begun
  // Once: what comes later is of this life of the server.
  const std::optional<record::Opened> had = std::exchange(restored_, std::nullopt);
  if (!had) return {};
  // Launchers count attempts too, and must find the number that they know.
  attempt_ = had->attempt;
  // Only where both lives of the server kept keys are they all here.
  if (had->keeps && keeps_) {
    written_ = true;
    return {.again = true, .port = had->port};
  }
  // What was in that store is lost, so its number must not be another one's.
  if (std::exchange(used_, false) && attempt_ < kAttemptMax) ++attempt_;
  return {.port = had->port};
}

std::vector<Record> Attempts::Keep() {
  // Where keys are lost with the server, a store that nobody knew of need not be known either.
  if (!keeps_ || std::exchange(written_, true)) return {};
  return {Opening()};
}

std::vector<Record> Attempts::Snapshot() const {
  std::vector<Record> records = {Opening()};
  if (used_) records.emplace_back(record::Used{});
  return records;
}

Attempts::Wish Attempts::Asked(int64_t attempt) const {
  // 0: whoever asks does not count attempts.
  if (attempt == 0 || attempt == attempt_) return Wish::kCurrent;
  return attempt < attempt_ ? Wish::kOver : Wish::kNext;
}

std::vector<Record> Attempts::Next(int64_t attempt, uint16_t port) {
  LOCKSTEP_DCHECK(attempt > attempt_ && attempt <= kAttemptMax);
  // Before `Told`, which writes down what is current.
  attempt_ = attempt;
  port_ = port;
  written_ = used_ = false;
  return Told();
}

std::vector<Record> Attempts::Told() {
  LOCKSTEP_DCHECK(!used_ || written_);  // a record of use follows that of its store
  if (std::exchange(used_, true)) return {};
  // The store before its use: a record of use belongs to the store opened last.
  std::vector<Record> records;
  if (!std::exchange(written_, true)) records.emplace_back(Opening());
  records.emplace_back(record::Used{});
  return records;
}

}  // namespace lockstep::tcpstore
