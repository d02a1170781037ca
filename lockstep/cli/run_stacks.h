// Answers `lockstep stacks` for the processes that one `lockstep run` has started.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/client/session.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::cli {

// Follows the key of questions, with a session of its own; who asks finds the answer below another
// key. It comes back by itself when the server does. Costs nothing while nobody asks.
//
// Threads: `Start` and `Take` on one thread; it has one of its own, and the session's.
class RunStacks {
 public:
  // `folder` is the one that launch::WriteStackHook was given; empty: Python is asked by py-spy
  // only.
  RunStacks(std::string folder, std::string host, std::string role);
  ~RunStacks();
  RunStacks(const RunStacks&) = delete;
  RunStacks& operator=(const RunStacks&) = delete;

  // Asked on another thread for what the processes have written last, by member; told whenever.
  using LastLines = std::map<int32_t, std::vector<std::string>>;
  using AskLastLines = std::function<void(std::function<void(LastLines)>)>;
  void Start(const launch::JobAddress& address, AskLastLines ask_last_lines);
  void Take(const launch::ProcessReport& report);

 private:
  void Open(const launch::JobAddress& address);
  void Answer(const std::string& question);
  LastLines WhatWasWritten();

  const std::string folder_;
  const std::string host_;
  const std::string role_;
  AskLastLines ask_last_lines_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<int32_t, int64_t> pids_;  // by member, of those that run; guarded by mutex_
  std::string answered_;             // the last question's id; the watch's thread alone
  std::unique_ptr<Session> session_;
  std::unique_ptr<KeyWatch> watch_;
  std::thread opening_;
};

}  // namespace lockstep::cli
