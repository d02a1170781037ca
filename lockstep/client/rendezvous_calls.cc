#include "lockstep/client/rendezvous_calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::client {

std::byte* RendezvousCalls::WhereBytesGo(OpId op) const {
  const auto waiting = waiting_.find(op);
  return waiting == waiting_.end() ? nullptr : waiting->second.into;
}

void RendezvousCalls::SetFetched(OpId op, rendezvous::MemoryPtr memory) {
  const auto waiting = waiting_.find(op);
  if (waiting != waiting_.end()) waiting->second.fetched = std::move(memory);
}

void RendezvousCalls::Take(rendezvous::Effects& effects) {
  for (rendezvous::Completed& completed : effects.completed) {
    auto node = waiting_.extract(completed.op);
    if (node.empty()) continue;
    if (node.mapped().fetched) completed.value.memory = std::move(node.mapped().fetched);
    // Here and not in `Settle`: another thread may take it from here while `WaitForCallbacks`
    // looks.
    if (node.mapped().done) client_.ExpectCallback();
    after_.completed.emplace_back(std::move(node.mapped()), std::move(completed));
  }
  std::move(effects.dropped.begin(), effects.dropped.end(), std::back_inserter(after_.dropped));
  has_after_ = !after_.empty();
}

RendezvousCalls::After RendezvousCalls::TakeAfter() {
  if (!has_after_.exchange(false)) return {};
  return std::exchange(after_, {});
}

void RendezvousCalls::Settle(After&& after, bool on_loop) {
  for (auto& [waiting, completed] : after.completed) {
    LOCKSTEP_DCHECK((waiting.caller != nullptr) != (waiting.done != nullptr));
    if (waiting.caller != nullptr) {
      waiting.caller->completed = std::move(completed);
      if (on_loop) {
        waiting.caller->Wake();
      } else {
        client_.loop().Post([caller = waiting.caller] { caller->Wake(); });
      }
    } else {
      client_.Callback(
          [done = std::move(waiting.done), completed = std::move(completed)]() mutable {
            done(std::move(completed));
          });
    }
  }
}

}  // namespace lockstep::client
