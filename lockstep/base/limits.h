// Every bound that more than one part must agree on, with its name. What a job can be given is in
// coord/options.h; here is what the format of things fixes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// The largest message a door or the link takes: `message_bytes_max`.
inline constexpr size_t kMessageBytesMax = size_t{64} << 20;

// What of it may be beside the value in a request that sets a key, and in the answer that gives it:
// the key's name, the fields. `message_overhead_max`.
inline constexpr size_t kMessageOverheadMax = size_t{1} << 20;

// The text of an error as it goes to a stock client, which cuts at 3072 bytes itself:
// `error_text_bytes_max`.
inline constexpr size_t kErrorTextBytesMax = 3072;

// How many members an error names before it says "+N more": `names_in_error_max`.
inline constexpr size_t kNamesInErrorMax = 3;

// Members of one job: `members_max`.
inline constexpr int32_t kMembersMax = 65536;

}  // namespace lockstep
