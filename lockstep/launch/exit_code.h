// The exit codes of `lockstep run` that are its own; docs/cli.md tells them to people. Pure.
#pragma once

namespace lockstep::launch {

inline constexpr int kExitUsage = 2;             // the command line is wrong; nothing was started
inline constexpr int kExitPreempted = 83;        // --preempt-exit-code: preempted and saved
inline constexpr int kExitLockstepFailed = 125;  // the server did not start, is not there, or ended
inline constexpr int kExitCannotExecute = 126;   // the command was found but cannot be executed
inline constexpr int kExitNotFound = 127;        // the command was not found
inline constexpr int kExitSignalBase = 128;      // plus the signal's number

}  // namespace lockstep::launch
