// How a member can be reached, and by which way from here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {

using Card = wire::native::Card;

// What is to be known of this process and host; without addresses and incarnation. The token is new
// with each call. Reads files of /proc.
Card MakeCard();

// What opens its doors. FAILED_PRECONDITION: ours encrypts what goes over the network, and it does
// not.
absl::StatusOr<DoorKey> KeyOf(const Card& other, const Card& self);

// Whether a transport of that name is among them.
bool Offers(const std::vector<std::string>& transports, std::string_view name);

// Whether memory can be shared with that process, as far as the cards say; `why_not` says it
// otherwise. Only trying proves it: a container may forbid what the cards allow.
bool MayShareMemory(const Card& self, const Card& other, std::string& why_not);

// Whether this process may try to read values from the memory of that one; as above.
bool MayReadMemory(const Card& self, const Card& other, std::string& why_not);

}  // namespace lockstep::transport
