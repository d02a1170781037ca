// What a process says of itself when it asks to be let in, through whichever listener. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Labels are for people: name and value.
using Labels = std::vector<std::pair<std::string, std::string>>;

// Made of RegisterMember (stock clients) or JoinJob (native ones), when role and index are known to
// be lawful.
struct Admission {
  CallId call;
  MemberIndex member;
  Incarnation incarnation;
  Time deadline = Time::Infinite();  // when the caller itself stops waiting
  std::string peer;
  std::string role;  // as the member calls it
  bool recoverable = false;
  std::string host;
  int64_t pid = 0;
  Labels labels;
  SessionId session;  // none: a stock client
  SessionId agent;    // through which that called; none: it called by itself

  bool native() const { return !session.none(); }  // whether it came through the native listener
};

}  // namespace lockstep::coord
