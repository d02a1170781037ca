// What the coordinator wants done. Pure. The shell carries effects out in the order of the fields.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"

namespace lockstep::coord {

// A member as coordination clients see it.
enum class MemberState { kDisconnected, kConnected, kError };

struct MemberStatus {
  MemberIndex member;
  Incarnation incarnation;
  MemberState state = MemberState::kDisconnected;
  ErrorPtr error;  // set in kError
};

struct KeyValue {
  std::string key;
  std::shared_ptr<const std::string> value;
};

struct AliveMember {
  MemberIndex member;
  Incarnation incarnation;
  friend bool operator==(const AliveMember&, const AliveMember&) = default;
};

// What a successful request brings back, besides success.
struct Registered {
  ServiceIncarnation service;
};
struct HeartbeatTaken {
  ServiceIncarnation service;
};
struct KeyRead {
  KeyValue entry;
};
struct KeysListed {
  std::vector<KeyValue> entries;
};
struct BarrierPassed {
  int64_t counter = 0;
};
struct AliveMembers {
  std::shared_ptr<const std::vector<AliveMember>> members;
};
struct MembersWatched {
  std::shared_ptr<const std::vector<MemberStatus>> members;
  int64_t version = 0;
};

using Answer = std::variant<std::monostate, Registered, HeartbeatTaken, KeyRead, KeysListed,
                            BarrierPassed, AliveMembers, MembersWatched>;

// The one answer to a call: the error when there is one, else the answer.
struct Reply {
  CallId call;
  ErrorPtr error;
  Answer answer;
};

enum class Severity { kInfo, kWarning, kError };

// A sentence for the operator.
struct Notice {
  Severity severity = Severity::kInfo;
  std::string text;
};

struct Effects {
  std::vector<Reply> replies;
  std::vector<Notice> notices;

  void Succeed(CallId call, Answer answer = {}) {
    replies.push_back({call, nullptr, std::move(answer)});
  }
  void Fail(CallId call, ErrorPtr error) { replies.push_back({call, std::move(error), {}}); }
  void Tell(Severity severity, std::string text) { notices.push_back({severity, std::move(text)}); }
};

}  // namespace lockstep::coord
