// What other parts of the library need of a member.
#pragma once

#include <memory>

namespace lockstep {
class Member;
}  // namespace lockstep

namespace lockstep::client {

class Engine;

std::shared_ptr<Engine> EngineOf(const Member& member);

}  // namespace lockstep::client
