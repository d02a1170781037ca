// What the members of a job say of their rendezvous, for people and programs. Pure. Each text ends
// with a new line; whatever clients wrote comes without control characters.
#pragma once

#include <string>
#include <vector>

#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::observe {

struct RendezvousAnswers {
  std::string job;
  std::vector<wire::native::RendezvousReport> reports;  // by member
  // Names of those that take part and did not answer in time.
  std::vector<std::string> silent;
};

// Who waits for whom, the longest first; what nobody has received; a row a member.
std::string RendezvousTable(const RendezvousAnswers& answers);
// {"job", "members": [...], "silent": [...]}
std::string RendezvousJson(const RendezvousAnswers& answers);

}  // namespace lockstep::observe
