#include "lockstep/cli/run_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/stack_keys.h"
#include "lockstep/launch/stack_taker.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {

using nlohmann::json;

namespace {
constexpr std::chrono::seconds kLinesTimeout(1);
}

std::string EncodeQuestion(const StacksAsked& asked) {
  return json({{"id", asked.id}, {"members", asked.members}, {"native", asked.native}}).dump();
}

absl::StatusOr<StacksAsked> DecodeQuestion(const std::string& text) {
  try {
    const json said = json::parse(text);
    return StacksAsked{.id = said.at("id").get<std::string>(),
                       .members = said.at("members").get<std::vector<int32_t>>(),
                       .native = said.at("native").get<bool>()};
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no question for stacks: ", error.what()));
  }
}

RunStacks::RunStacks(std::string folder, std::string host, std::string role)
    : folder_(std::move(folder)), host_(std::move(host)), role_(std::move(role)) {}

RunStacks::~RunStacks() {
  stopping_ = true;
  if (opening_.joinable()) opening_.join();
  watch_.reset();
}

// On a thread of its own, since it waits for the server.
void RunStacks::Start(const launch::JobAddress& address, AskLastLines ask_last_lines) {
  ask_last_lines_ = std::move(ask_last_lines);
  opening_ = std::thread([this, address] { Open(address); });
}

void RunStacks::Open(const launch::JobAddress& address) {
  auto session =
      Session::Open({.address = address.link,
                     .job = address.job,
                     .who = "lockstep run, for stacks",
                     .grace = absl::InfiniteDuration(),
                     .interrupted = [this]() -> absl::Status {
                       return stopping_ ? absl::CancelledError("it ends") : absl::OkStatus();
                     }});
  // Without it the run goes on, and `lockstep stacks` says that nobody answers.
  if (!session.ok()) return;
  session_ = *std::move(session);
  watch_ = session_->keys().Watch(kStackQuestionKey, [this](absl::StatusOr<KeyChanges> told) {
    if (!told.ok()) return;
    for (const KeyChange& change : told->changes) {
      if (change.value) Answer(*change.value);
    }
  });
}

void RunStacks::Take(const launch::ProcessReport& report) {
  using Kind = launch::ProcessReport::Kind;
  const std::lock_guard lock(mutex_);
  if (report.kind == Kind::kStarted) pids_[report.member.value()] = report.pid;
  if (report.kind == Kind::kEnded) pids_.erase(report.member.value());
}

RunStacks::LastLines RunStacks::WhatWasWritten() {
  auto told = std::make_shared<std::promise<LastLines>>();
  std::future<LastLines> lines = told->get_future();
  ask_last_lines_([told](LastLines all) { told->set_value(std::move(all)); });
  // The loop may have ended meanwhile, and then nobody needs them.
  return lines.wait_for(kLinesTimeout) == std::future_status::ready ? lines.get() : LastLines();
}

void RunStacks::Answer(const std::string& question) {
  const auto asked = DecodeQuestion(question);
  if (!asked.ok() || asked->id == answered_) return;
  answered_ = asked->id;
  std::map<int32_t, int64_t> pids;
  {
    const std::lock_guard lock(mutex_);
    pids = pids_;
  }
  std::vector<launch::StackQuestion> questions;
  for (const auto& [member, pid] : pids) {
    const auto& members = asked->members;
    if (members.empty() || std::find(members.begin(), members.end(), member) != members.end()) {
      questions.push_back({.member = member,
                           .name = absl::StrCat(role_, "/", member),
                           .host = host_,
                           .pid = pid,
                           .native = asked->native});
    }
  }
  // All at the same time: they are to be of one moment, and each may take seconds.
  std::vector<launch::ProcessStacks> taken(questions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < questions.size(); ++i) {
    threads.emplace_back([&, i] { taken[i] = launch::TakeStacks(questions[i], folder_); });
  }
  for (std::thread& thread : threads) thread.join();
  LastLines lines = WhatWasWritten();
  for (launch::ProcessStacks& process : taken) {
    process.last_lines = std::move(lines[process.member]);
  }
  const std::string key =
      absl::StrCat(StackAnswersDirectory(asked->id), "/", host_, "-", ::getpid());
  // Who asked says so when nothing comes.
  static_cast<void>(session_->keys().Set(key, launch::EncodeStacks(taken),
                                         {.ttl = kStackKeysLive, .timeout = absl::Seconds(5)}));
}

}  // namespace lockstep::cli
