// A native client in a simulation: its session, and what it does with it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/sim/history.h"
#include "lockstep/sim/native_server.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {

// Keeps a session: numbers requests, dials again when its link breaks, opens the session anew and
// sends again what has no answer yet, in order. As lockstep/client does.
class NativeSession {
 public:
  using Done = std::function<void(const coord::Reply&)>;

  // All references must outlive the session, and it whatever `schedule` still holds of it.
  NativeSession(Schedule& schedule, NativeServer& server, Random random, SessionId id);

  void Start() { Dial(); }
  void Request(coord::Event event, Done done);
  // The server may forget it: that it is not known any more is no failure.
  void Close();
  // From now on it does nothing: its process is dead. The kernel closes the link.
  void Die();
  void BreakLink(bool silent);

  SessionId id() const { return id_; }
  // Set when the server said that it does not know the session any more.
  const std::string& failure() const { return failure_; }

 private:
  struct Open {
    coord::Event event;
    Done done;
  };

  void Dial();
  void Broke(uint64_t dial);
  void Answered(uint64_t dial, uint64_t number, const coord::Reply& reply);
  void Opened(const coord::Reply& reply);

  Schedule& schedule_;
  NativeServer& server_;
  Random random_;
  const SessionId id_;
  std::map<uint64_t, Open> open_;
  uint64_t last_number_ = 0;
  NativeServer::LinkId link_ = 0;
  uint64_t dial_ = 0;  // which link the client is at, so that an older one is not listened to
  int tries_ = 0;
  bool opened_ = false;  // on this link
  bool ever_opened_ = false;
  bool closing_ = false;
  bool dead_ = false;
  std::string failure_;
};

// Joins, works off two rows of operations side by side (keys; barriers and agreements), leaves.
// When its attempt is over before that, it joins the next one.
class NativeClient {
 public:
  struct Setup {
    int32_t index = 0;
    int operations = 20;
    int rounds = 8;
    bool asks_for_index = true;  // otherwise it is given one
    bool new_session_per_life = false;
  };

  NativeClient(Schedule& schedule, NativeServer& server, History& history, Random random,
               const NativeScenario& scenario, Setup setup);

  void Start();
  void Die();
  void BreakLink(bool silent) {
    if (session_ != nullptr) session_->BreakLink(silent);
  }

  bool alive() const { return alive_; }
  bool done() const { return done_; }
  // It has asked to leave; whether that took effect, nobody else knows.
  bool leaving() const { return leaving_; }
  // Empty, or what a client should never see.
  std::string failure() const;
  std::string name() const;

 private:
  void Join();
  void Joined(const coord::Reply& reply);
  void NextOperation();
  void NextRound();
  void EndRow();
  void Leave();
  // True when the error says that the attempt is over; then the client joins again.
  bool Over(const coord::Reply& reply);
  // What a success brings; null, and a failure of the run, when it is something else.
  template <class T>
  const T* Expect(const coord::Reply& reply) {
    const T* answer = reply.error ? nullptr : std::get_if<T>(&reply.answer);
    if (answer == nullptr) failure_ = "it was answered with something that it had not asked for";
    return answer;
  }
  void Rejoin();
  void Watch();
  void Watched(const coord::Reply& reply);
  void Request(coord::Event event, NativeSession::Done done);

  Schedule& schedule_;
  NativeServer& server_;
  History& history_;
  Random random_;
  const NativeScenario& scenario_;
  const Setup setup_;

  std::vector<std::unique_ptr<NativeSession>> sessions_;
  NativeSession* session_ = nullptr;
  Incarnation incarnation_;
  int life_ = 0;  // answers for an older one are void
  ServiceIncarnation service_;
  MemberIndex member_;
  int operations_left_ = 0;
  int rounds_left_ = 0;
  int rows_open_ = 0;
  std::map<std::string, int64_t> counters_;
  bool alive_ = true;
  bool done_ = false;
  bool leaving_ = false;
  std::string failure_;
};

}  // namespace lockstep::sim
