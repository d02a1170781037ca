#include "peer.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace lockstep::bench {
namespace {

[[noreturn]] void NoSuchRow() { Die("this peer has no such row"); }

}  // namespace

void Die(const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, text.c_str());
  std::_Exit(1);
}

void Peer::Wait(size_t, std::string, Done) { NoSuchRow(); }
void Peer::Swap(size_t, std::string, std::string, std::string, Done) { NoSuchRow(); }
void Peer::Barrier(size_t, std::string, Done) { NoSuchRow(); }
void Peer::Watch(size_t, std::string, Done, Done) { NoSuchRow(); }
void Peer::AwaitError(size_t, Done) { NoSuchRow(); }
void Peer::Restart(size_t, Done) { NoSuchRow(); }

}  // namespace lockstep::bench
