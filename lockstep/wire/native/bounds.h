// Named bounds of the texts and lists in requests, which the decoder enforces (field.h). Pure.
//
// Two sorts of texts. What a configurable limit of the server guards as well (keys, barrier ids,
// labels) gets a wide bound here, so that the server's own error names the option. What nothing
// else guards gets the narrow one.
#pragma once

#include "lockstep/base/limits.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// Names of hosts, runs, tags: whatever is shown in a table.
inline constexpr Bound kNameBytes = {"name_bytes_max", 256};
// HOST:PORT, where HOST has at most 253 bytes.
inline constexpr Bound kAddressBytes = {"address_bytes_max", 320};
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

}  // namespace lockstep::wire::native
