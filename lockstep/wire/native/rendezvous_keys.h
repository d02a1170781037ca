// Keys of the job that the rendezvous uses, written and read by its members and by who looks. Pure.
#pragma once

#include <string_view>

namespace lockstep::wire::native {

// A card of each member that takes part, under its number.
inline constexpr std::string_view kRendezvousCards = "lockstep/rendezvous/card";
// What was last asked by who looks.
inline constexpr std::string_view kRendezvousLook = "lockstep/rendezvous/look";
// What each member answered, under its number.
inline constexpr std::string_view kRendezvousReports = "lockstep/rendezvous/report";

}  // namespace lockstep::wire::native
