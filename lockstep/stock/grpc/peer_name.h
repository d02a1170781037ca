// How gRPC names the other end of a connection.
#pragma once

#include <string>

namespace lockstep::net {

// "ipv4:127.0.0.1:40000", as a call's context says it; empty: it is not connected.
std::string PeerName(int fd);

}  // namespace lockstep::net
