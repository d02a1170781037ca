#include "lockstep/data/dispatch/reading_mode.h"

#include "lockstep/data/dispatch/exact_mode.h"
#include "lockstep/data/dispatch/first_come_mode.h"
#include "lockstep/data/dispatch/rounds_mode.h"

namespace lockstep::dispatch {

std::unique_ptr<ReadingMode> MakeReadingMode(const IterationParts& parts) {
  switch (parts.ledger.spec().mode) {
    case Mode::kFirstCome:
      return std::make_unique<FirstComeMode>(parts);
    case Mode::kExact:
      return std::make_unique<ExactMode>(parts);
    case Mode::kRounds:
      return std::make_unique<RoundsMode>(parts);
  }
  return nullptr;
}

}  // namespace lockstep::dispatch
