// What is fuzzed of what two members say before they believe each other: any bytes, in any pieces,
// to an end that takes the proof of the secret and to one that gives it, and any harm that somebody
// between several such ends can do.
//
// The ends draw their numbers afresh each time, so an input does not hold what they say: it is
// acts, which say whose words go to whom. What is found stays found whatever the numbers are.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::fuzz {

// Of the two ends of `RealHandshake`: whether they believe that the other knows the secret.
struct HandshakeOutcome {
  bool taker_done = false;
  bool giver_done = false;
};

// Ends the process where something that must hold does not: an end believes another without its
// proof, does not believe a real one, wants or takes bytes of what follows, or says anything else
// than the protocol does.
//
// The first byte is the size of the pieces in which bytes come; acts follow.
HandshakeOutcome DriveHandshake(std::string_view bytes);

// Acts that carry everything that two ends with one secret say to each other.
std::string RealHandshake();

}  // namespace lockstep::fuzz
