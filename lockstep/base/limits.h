// Every bound that more than one part must agree on, with its name. What a job can be given is in
// coord/options.h; here is what the format of things fixes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

// The largest message a listener or the link takes: `message_bytes_max`.
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
inline constexpr int32_t kMembersMax = 131'072;

// The highest number of an attempt, of a job, of its store and of a run: `attempt_max`.
inline constexpr int64_t kAttemptMax = (int64_t{1} << 31) - 1;

// How far a peer's attempt may be ahead of the one that we know of: `attempts_ahead_max`. A run
// whose launchers went on while the server was away is ahead by its restarts.
inline constexpr int64_t kAttemptsAheadMax = 1000;

// Whether a peer may name this attempt when `current` is on.
constexpr bool IsAttemptWithin(int64_t attempt, int64_t current) {
  return attempt >= 0 && attempt <= kAttemptMax && attempt - current <= kAttemptsAheadMax;
}

// Records in one entry of the journal come to little more than this; an event that changes more
// makes several entries, which are kept together: `entry_bytes_soft_max`.
inline constexpr size_t kEntryBytesSoftMax = size_t{1} << 20;

// Keys that die by themselves go in slices: so many keys, or so many bytes, in one turn. The rest
// is due at once. `dying_keys_slice_max`, `dying_bytes_slice_max`.
inline constexpr size_t kDyingKeysSliceMax = 1024;
inline constexpr size_t kDyingBytesSliceMax = size_t{1} << 20;

}  // namespace lockstep
