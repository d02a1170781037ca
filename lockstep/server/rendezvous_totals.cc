#include "lockstep/server/rendezvous_totals.h"

#include <algorithm>

#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_keys.h"

namespace lockstep::server {
namespace {

using wire::native::RendezvousKey;
using wire::native::RendezvousReport;

bool IsBelow(std::string_view key, std::string_view directory) {
  return key.size() > directory.size() && key.substr(0, directory.size()) == directory &&
         key[directory.size()] == '/';
}

}  // namespace

void RendezvousTotalsOfKeys::Add(std::string_view key, const std::string& value, Time set_at) {
  if (IsBelow(key, wire::native::kRendezvousCards)) {
    ++totals_.members;
  } else if (key == wire::native::kRendezvousLook) {
    look_ = value;
    totals_.look = RendezvousLookTotals{.at = set_at};
  }
  if (!totals_.look.has_value() || !IsBelow(key, wire::native::kRendezvousReports)) return;
  const auto report = wire::native::Decode<RendezvousReport>(value);
  if (!report.ok() || report->look != look_) return;
  RendezvousLookTotals& look = *totals_.look;
  ++look.answers;
  look.waits += report->waits;
  look.held_values += report->held_values;
  look.held_bytes += report->held_bytes;
  for (const RendezvousKey& waiting : report->waiting) {
    look.oldest_wait_us = std::max(look.oldest_wait_us, waiting.age_us);
  }
}

bool RendezvousTotalsOfKeys::AddSomeOf(const coord::Coordinator& job) {
  constexpr size_t kKeysPerStep = 64;
  const std::string from = after_;
  return job.ForEachKeyBelow({kRendezvousKeys.data(), kRendezvousKeys.size()}, from, kKeysPerStep,
                             [&](absl::string_view key, const coord::StoredKey& stored) {
                               Add({key.data(), key.size()}, stored.value, stored.set_at);
                               after_.assign(key.data(), key.size());
                             });
}

}  // namespace lockstep::server
