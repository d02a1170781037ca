// Named bounds of the texts, lists and numbers in messages from outside, which the decoder enforces
// (field.h). Pure.
//
// Two sorts of texts. What a configurable limit of the server guards as well (keys, barrier ids,
// labels) gets a wide bound here, so that the server's own error names the option. What nothing
// else guards gets the narrow one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "lockstep/base/limits.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// Names of hosts, runs, tags: whatever is shown in a table.
inline constexpr Bound kNameBytes = {"name_bytes_max", 256};
// HOST:PORT, where HOST has at most 253 bytes.
inline constexpr Bound kAddressBytes = {"address_bytes_max", 320};
// Shown by a caller in its hello, which has 4 KiB; Kubernetes' have from 900 to 1500.
inline constexpr Bound kTokenBytes = {"token_bytes_max", 3072};
// What a person or a program says in a sentence: an error, a notice, why a run ended.
inline constexpr Bound kSentenceBytes = {"sentence_bytes_max", size_t{64} << 10};
// Keys, ids and names that a limit of the server's options guards more closely.
inline constexpr Bound kIdBytes = {"id_bytes_max", size_t{64} << 10};
// What describes a host to processes on it: ids of its namespaces.
inline constexpr Bound kHostCardBytes = {"host_card_bytes_max", size_t{4} << 10};
// Values, definitions and manifests.
inline constexpr Bound kValueBytes = {"message_bytes_max", kMessageBytesMax};

// One element for each member of a job.
inline constexpr Bound kPerMember = {"members_max", static_cast<size_t>(kMembersMax)};
// Addresses of the nodes of a run, tags of a worker, roles of a job.
inline constexpr Bound kFew = {"list_short_max", 1024};
// Keys, segments, lanes: what the bytes of a message bound in practice.
inline constexpr Bound kMany = {"list_long_max", size_t{1} << 20};
// Whole numbers that are a value: as many as a message has bytes for.
inline constexpr Bound kNumbers = {"message_bytes_max", kMessageBytesMax};

// --- Numbers ---
//
// Each says one. Most are of the first two sorts, which take all that the type holds.

// Every value means something: random numbers, bits, what a program counts as it likes.
inline constexpr Range kAnyNumber = {"any", std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<uint64_t>::max()};
// Whoever takes the message compares it with what there is, or refuses it with an error of its own
// that says more than this one: ids, indices, revisions, versions, time-outs, attempts.
inline constexpr Range kCheckedNumber = {"checked", std::numeric_limits<int64_t>::min(),
                                         std::numeric_limits<uint64_t>::max()};
// Counts, sizes and times that are added up or shown, and that nothing else looks at.
inline constexpr Range kNatural = {"whole_number_max", 0, std::numeric_limits<int64_t>::max()};
// 0: not known.
inline constexpr Range kPid = {"pid_max", 0, std::numeric_limits<int32_t>::max()};
inline constexpr Range kSignal = {"signal_max", 0, 128};

}  // namespace lockstep::wire::native
