// Exit codes of `lockstep-agent`, beside 0: it was told to end.
#pragma once

namespace lockstep::agent {

inline constexpr int kExitFailed = 1;      // no server or no address
inline constexpr int kExitUsage = 2;       // wrong options
inline constexpr int kExitServerLost = 3;  // the server was away for too long, or forgot the agent
// The host is cut off, and the processes that call this agent have to end at once: others may be
// started in their place.
inline constexpr int kExitCutOff = 4;

}  // namespace lockstep::agent
