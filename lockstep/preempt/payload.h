// What a file, a command or a request to our webhook may say of a preemption. Pure.
//
//   (nothing)                      only that there is one
//   30s                            in 30 s
//   {"id": "drain-7", "kind": "maintenance", "left": "5m", "text": "rack 12 is moved"}
//   [{...}, {...}]                 several
//   null, false, {}, []            there is none
//   anything else                  a text for people
//
// `left` is a duration or a number of seconds; `at` instead names the moment (RFC 3339). What is
// begun as JSON must be whole: who writes a file in two goes is not read half-way.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/preempt/notice.h"

namespace lockstep::preempt {

inline constexpr size_t kPayloadBytesMax = 64 << 10;

// The notices of `text`, with `lead` where the text gives a duration. Those that give no id get
// `id`, or when that is empty a hash of what they say. INVALID_ARGUMENT: neither of the above; the
// error quotes nothing of it.
absl::StatusOr<std::vector<Notice>> ParsePayload(const Now& now, absl::string_view text,
                                                 absl::string_view id = {});

// "30s", "1h30m": finite, not negative.
std::optional<absl::Duration> ParseLead(absl::string_view text);

}  // namespace lockstep::preempt
