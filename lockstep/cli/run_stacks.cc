#include "lockstep/cli/run_stacks.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

using wire::native::DecodeQuestion;
using wire::native::EncodeQuestion;
using wire::native::StacksAsked;

namespace {

constexpr std::chrono::seconds kLinesTimeout(1);
constexpr absl::Duration kFollowInterval = absl::Seconds(1);
// From when on a process that has not moved is worth a look: `stacks_standstill`; and until the
// next one.
constexpr absl::Duration kLongStill = absl::Seconds(8);
constexpr absl::Duration kAskAgain = absl::Seconds(45);
static_assert(kFollowInterval < kLongStill && kLongStill < kAskAgain);

}  // namespace

RunStacks::RunStacks(StackSubjects subjects) : local_(std::move(subjects)) {}

void RunStacks::Start(const launch::JobAddress& address, AskLastLines ask_last_lines, Say say) {
  ask_last_lines_ = std::move(ask_last_lines);
  say_ = std::move(say);
  follower_.emplace(kFollowInterval, [this] { Follow(); });
  opener_.emplace(SessionOptions{.address = address.link,
                                 .job = address.job,
                                 .who = "lockstep run, for stacks",
                                 .grace = absl::InfiniteDuration()},
                  [this](absl::StatusOr<std::unique_ptr<Session>> session) {
                    // Without it the run goes on, and `lockstep stacks` says that nobody answers.
                    if (session.ok()) Open(*std::move(session));
                  });
}

void RunStacks::Open(std::unique_ptr<Session> session) {
  session_ = std::move(session);
  opened_ = true;
  watch_ = session_->keys().Watch(wire::native::kStackQuestionKey,
                                  [this](absl::StatusOr<KeyChanges> told) {
                                    if (!told.ok()) return;
                                    for (const KeyChange& change : told->changes) {
                                      if (change.value) Answer(*change.value);
                                    }
                                  });
}

RunStacks::LastLines RunStacks::WhatWasWritten() {
  auto told = std::make_shared<std::promise<LastLines>>();
  std::future<LastLines> lines = told->get_future();
  ask_last_lines_([told](LastLines all) { told->set_value(std::move(all)); });
  // The loop may have ended meanwhile, and then nobody needs them.
  return lines.wait_for(kLinesTimeout) == std::future_status::ready ? lines.get() : LastLines();
}

void RunStacks::Follow() {
  local_.Look();
  if (!opened_) return;
  const std::optional<int32_t> member = local_.StillFor(kLongStill);
  if (!member || runtime::MonotonicNow() < ask_at_) return;
  ask_at_ = runtime::MonotonicNow() + kAskAgain;
  AskAll(*member);
}

// Of all launchers the first: it would be the same question.
void RunStacks::AskAll(int32_t member) {
  const std::string& host = local_.subjects().host;
  const Keys keys = session_->keys();
  const absl::Duration timeout = absl::Seconds(5);
  const auto first = keys.CompareAndSet(wire::native::kStackAskerKey, KeyMust::NotExist(), host,
                                        {.ttl = kAskAgain, .timeout = timeout});
  if (!first.ok() || !first->swapped) return;
  const StacksAsked question = {
      .id = absl::StrCat(host, "-", ::getpid(), "-", ++asked_),
      .because = absl::StrCat(local_.subjects().role, "/", member, " had not moved for ",
                              absl::FormatDuration(kLongStill))};
  // A look that cannot be had is none.
  static_cast<void>(
      keys.Set(wire::native::kStackQuestionKey, EncodeQuestion(question),
               {.ttl = wire::native::kStackQuestionOfTimeoutLives, .timeout = timeout}));
}

void RunStacks::Answer(const std::string& question) {
  const auto asked = DecodeQuestion(question);
  if (!asked.ok() || asked->id == answered_) return;
  answered_ = asked->id;
  std::vector<launch::ProcessStacks> taken = local_.Take(*asked);
  if (asked->say && !taken.empty()) {
    // Anybody may have asked: a terminal must not obey what the question says.
    say_(absl::StrCat(observe::CleanText(asked->because), ": ", launch::StacksSentence(taken)));
  }
  LastLines lines = WhatWasWritten();
  for (launch::ProcessStacks& process : taken) {
    process.last_lines = std::move(lines[process.member]);
  }
  const std::string key = absl::StrCat(wire::native::StackAnswersDirectory(asked->id), "/",
                                       local_.subjects().host, "-", ::getpid());
  // While a process stands still there are many looks, and the last is what counts.
  const bool one_of_many = !asked->because.empty() && !asked->say;
  if (one_of_many && !kept_.empty()) {
    static_cast<void>(session_->keys().Delete(kept_, {.timeout = absl::Seconds(5)}));
  }
  if (one_of_many) kept_ = key;
  // Who asked says so when nothing comes.
  static_cast<void>(
      session_->keys().Set(key, launch::EncodeStacks(taken),
                           {.ttl = asked->because.empty() ? wire::native::kStackKeysLive
                                                          : wire::native::kStacksOfTimeoutLive,
                            .timeout = absl::Seconds(5)}));
}

}  // namespace lockstep::cli
