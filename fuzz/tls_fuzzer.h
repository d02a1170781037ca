// What is fuzzed of TLS: any bytes from the other end, in any pieces, to a server's end and to a
// client's, and any harm that somebody on the way can do to a real conversation.
//
// OpenSSL draws its random numbers from a fixed sequence here, one for each end, so that a recorded
// conversation is a conversation when it is played again, and what is found stays found.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::fuzz {

// How far a run came.
struct TlsOutcome {
  bool server_established = false;
  bool client_established = false;
};

// Ends the process where something that must hold does not: an end gives clear bytes that the real
// other end has not written, gives output beyond a bound, or comes back after an error.
//
// The first byte says what follows: bytes for a server, bytes for a client, or acts of somebody on
// the way; the second the size of the pieces in which bytes come.
TlsOutcome DriveTls(std::string_view bytes);

// What a real end says to the other, as an input of `DriveTls`.
std::string RealClient();
std::string RealServer();
// Acts that carry everything.
std::string RealConversation();

}  // namespace lockstep::fuzz
