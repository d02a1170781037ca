// The errors of the rendezvous that are said in several places. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::rendezvous {

// "trainer/4"
std::string NameOf(const Options& options, MemberIndex member);

// Null when a key may have this member and this name.
ErrorPtr CheckKey(const Options& options, MemberIndex peer, std::string_view name);

ErrorPtr StepClosedHere(StepId step);
// Of a value that was sent.
ErrorPtr NotReceived(const Options& options, MemberIndex by);
ErrorPtr QuotaExceeded(const Options& options, size_t held_values, uint64_t held_bytes,
                       uint64_t more_bytes);
// To those who want what will not come.
ErrorPtr ClosedBySender(const Options& options, StepId step);
ErrorPtr TooManyUnopened(const Options& options);
ErrorPtr TooManyWaits(std::string_view limit, size_t max);
ErrorPtr SizeMismatch(StepId step, std::string_view name, std::string_view from,
                      uint64_t into_bytes, const Value& came);

}  // namespace lockstep::rendezvous
