#include "lockstep/server/data_effect_gate.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "lockstep/server/entries.h"
#include "lockstep/wire/store/data_entry.h"

namespace lockstep::server {

DataEffectGate::DataEffectGate(CommitQueue& commits, CarryOut carry_out)
    : commits_(commits), carry_out_(std::move(carry_out)) {}

void DataEffectGate::Settle(dispatch::Effects effects) {
  if (effects.records.empty() || !keeps()) {
    if (commits_.idle()) return carry_out_(effects, /*durable=*/true);
    if (effects.replies.empty() && effects.log.empty()) return;
    return commits_.Follow(Later(std::move(effects)));
  }
  std::vector<std::string> entries =
      EntriesOf(absl::MakeConstSpan(effects.records), [](auto records, std::string& out) {
        return wire::store::EncodeDataRecords(absl::Now(), records, out);
      });
  effects.records.clear();
  commits_.Commit(std::move(entries), Later(std::move(effects)));
}

CommitQueue::Release DataEffectGate::Later(dispatch::Effects effects) {
  return [this, alive = std::weak_ptr(alive_), effects = std::move(effects)](bool durable) {
    if (!alive.expired()) carry_out_(effects, durable);
  };
}

}  // namespace lockstep::server
