// Answers `lockstep stacks` for the processes that one `lockstep run` has started.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/cli/local_stacks.h"
#include "lockstep/cli/repeater.h"
#include "lockstep/cli/session_opener.h"
#include "lockstep/client/session.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/stacks.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::cli {

// Follows the key of questions, with a session of its own; who asks finds the answer below another
// key. It comes back by itself when the server does. While nobody asks it only looks whether the
// processes run: at sixteen of them a second, which is not to be seen in a profile. When one has
// not moved for long it has all launchers of the job look, so that it is known where the others
// were if that ends in a failure.
//
// Threads: `Start` and `Take` on one thread; it has two of its own, and the session's.
class RunStacks {
 public:
  explicit RunStacks(StackSubjects subjects);

  // Asked on another thread for what the processes have written last, by member; told whenever.
  using LastLines = std::map<int32_t, std::vector<std::string>>;
  using AskLastLines = std::function<void(std::function<void(LastLines)>)>;
  // Told on another thread what is seen when something timed out.
  using Say = std::function<void(std::string)>;
  // Once. Opens a session in the background; answers nobody while there is none.
  void Start(const launch::JobAddress& address, AskLastLines ask_last_lines, Say say);
  // A process was started or has ended.
  void Take(const launch::ProcessReport& report) { local_.Note(report); }

 private:
  void Open(std::unique_ptr<Session> session);
  // Looks whether the processes run, and asks about one that has stood still for long. Blocks.
  void Follow();
  void AskAll(int32_t member);
  void Answer(const std::string& question);
  LastLines WhatWasWritten();

  LocalStacks local_;
  AskLastLines ask_last_lines_;
  Say say_;
  std::string answered_;  // the last question's id; the watch's thread alone
  std::string kept_;      // the key of the last look at a standstill; the watch's thread alone
  int64_t asked_ = 0;     // questions of our own; the following thread alone, as the next
  Time ask_at_;           // no question of our own before it
  // Destroyed from the last up: the threads of opener and follower use what stands before them.
  std::unique_ptr<Session> session_;  // null until it is open
  std::atomic<bool> opened_ = false;  // there is a session, for other threads than the opener's
  std::unique_ptr<KeyWatch> watch_;
  std::optional<Repeater> follower_;
  std::optional<SessionOpener> opener_;
};

}  // namespace lockstep::cli
