// What a member's rendezvous holds, as `lockstep rendezvous` asks. Tests only.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "lockstep/client/member.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_keys.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::faults {

// `look`: another one each time.
inline absl::StatusOr<wire::native::RendezvousReport> Look(Member& member, const std::string& look,
                                                           absl::Duration timeout) {
  const auto watch = member.keys().Watch(
      absl::StrCat(std::string(wire::native::kRendezvousReports), "/", member.member()));
  const auto asked = member.keys().Set(std::string(wire::native::kRendezvousLook), look);
  if (!asked.ok()) return asked.status();
  while (true) {
    const auto changes = watch->Next({.timeout = timeout});
    if (!changes.ok()) return changes.status();
    for (const KeyChange& change : changes->changes) {
      if (!change.value.has_value()) continue;
      auto report = wire::native::Decode<wire::native::RendezvousReport>(*change.value);
      if (!report.ok() || report->look == look) return report;
    }
  }
}

}  // namespace lockstep::faults
