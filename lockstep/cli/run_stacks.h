// Answers `lockstep stacks` for the processes that one `lockstep run` has started.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/client/session.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/stacks.h"
#include "lockstep/launch/standstill.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/wire/native/stack_question.h"

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
  // `folder` is the one that launch::WritePythonHook was given; empty: Python is asked by py-spy
  // only.
  RunStacks(std::string folder, std::string host, std::string role);
  ~RunStacks();
  RunStacks(const RunStacks&) = delete;
  RunStacks& operator=(const RunStacks&) = delete;

  // Asked on another thread for what the processes have written last, by member; told whenever.
  using LastLines = std::map<int32_t, std::vector<std::string>>;
  using AskLastLines = std::function<void(std::function<void(LastLines)>)>;
  // Told on another thread what is seen when something timed out.
  using Say = std::function<void(std::string)>;
  void Start(const launch::JobAddress& address, AskLastLines ask_last_lines, Say say);
  void Take(const launch::ProcessReport& report);

 private:
  void Open(const launch::JobAddress& address);
  void Follow();
  // One of them has stood still for long. Blocks.
  void AskAll(int32_t member);
  // The first that has.
  std::optional<int32_t> LongStill() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(const std::string& question);
  std::vector<launch::ProcessStacks> TakeAll(const wire::native::StacksAsked& asked);
  LastLines WhatWasWritten();

  const std::string folder_;
  const std::string host_;
  const std::string role_;
  AskLastLines ask_last_lines_;
  Say say_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  CondVar stop_;                                              // with stopping_
  std::map<int32_t, int64_t> pids_ ABSL_GUARDED_BY(mutex_);   // by member, of those that run
  std::map<int32_t, int64_t> ended_ ABSL_GUARDED_BY(mutex_);  // likewise, of this attempt
  launch::Standstill standstill_ ABSL_GUARDED_BY(mutex_);
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;  // whoever is asked runs for that
  Time disturb_at_ ABSL_GUARDED_BY(mutex_);      // before it, no look is felt
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;  // there is a session
  std::string answered_;                         // the last question's id; the watch's thread alone
  std::string kept_;   // the key of the last look at a standstill; the watch's thread alone
  int64_t asked_ = 0;  // questions of our own; the following thread alone
  std::unique_ptr<Session> session_;
  std::unique_ptr<KeyWatch> watch_;
  std::thread opening_;
  std::thread following_;
};

}  // namespace lockstep::cli
