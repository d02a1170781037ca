// Durable coordinators with one mistake each, to see that the judges of the native world would
// catch it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/sim/durable_machine.h"

namespace lockstep::sim {

// A mistake that a durable coordinator might make, seen from outside.
enum class NativeMutation {
  kForgetsWrites,          // a write is not recorded
  kForgetsDeletions,       // nor a deletion
  kForgetsAnswers,         // what was answered is not known after a restart
  kForgetsVerdicts,        // of barriers, after a restart
  kForgetsAgreements,      // on an index, after a restart
  kForgetsSessions,        // at a restart
  kForgetsMembers,         // at a restart
  kIsAnotherServiceAfter,  // a restart: everybody is told that it is not the one it was
  kSnapshotLosesAKey,
  kTakesRetriesForNew,  // does again what was done
  kAddsTwice,
  kSwapsRegardless,      // a compare-and-set succeeds whatever the value is
  kReadsTheOldValue,     // that was there before the last write
  kDeletesNothing,       // says that it deleted a key, and keeps it
  kHidesAChange,         // from one who watches
  kTellsALaterRevision,  // than what it has told
  kPassesEarly,          // a barrier, for who comes first
  kLosesABroughtValue,
  kMixesUpBroughtValues,
  kAgreesTooEarly,     // on an index that somebody has passed
  kAgreesDifferently,  // with one of them
  kGivesAnIndexTwice,  // to two processes
};
constexpr int kNativeMutations = static_cast<int>(NativeMutation::kGivesAnIndexTwice) + 1;

absl::string_view NameOf(NativeMutation mutation);

// The real coordinator behind a layer that makes the mistake at every opportunity from the second
// on.
class NativeMutantMachine : public DurableMachine {
 public:
  NativeMutantMachine(const coord::CoordinatorOptions& options, NativeMutation mutation)
      : real_(options), mutation_(mutation) {}

  coord::Effects Handle(Time now, coord::Event event) override;
  absl::Status Apply(Time at, const coord::Record& record) override;
  std::vector<coord::TimedRecord> Snapshot() const override;
  Time NextDeadline() const override { return real_.NextDeadline(); }
  coord::CoordinatorView View(Time now) const override { return real_.View(now); }

 private:
  bool Is(NativeMutation mutation) const { return mutation == mutation_; }
  bool Now() { return ++opportunities_ > 1; }
  bool Drops(const coord::Record& record) const;
  void SpoilEvent(Time now, coord::Event& event);
  void SpoilReply(coord::Reply& reply);
  void SpoilValues(coord::BarrierPassed& passed);

  DurableCoordinator real_;
  const NativeMutation mutation_;
  int opportunities_ = 0;
  uint64_t strange_number_ = uint64_t{1} << 40;
  std::map<std::string, std::string> last_read_;
};

}  // namespace lockstep::sim
