// One member of a job under load, attempt after attempt, until its process is killed. Tests only.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/client/member.h"
#include "lockstep/client/rendezvous.h"
#include "tests/faults/content.h"
#include "tests/faults/own_resources.h"

namespace lockstep::faults {

// To each other member it sends values 0, 1, 2... of one key, and from each it receives them, each
// direction on a thread of its own. It prints "begin ATTEMPT"; when somebody was lost "end ATTEMPT
// fds=N maps=N MEMBER=ACKED,RECEIVED... REASON...", and joins the next attempt. "wrong ..." comes
// of a value that is not the next one: lost, doubled or torn.
class StressedMember {
 public:
  StressedMember(std::string address, int32_t index, bool memory)
      : address_(std::move(address)), index_(index), memory_(memory) {}

  [[noreturn]] void Run() {
    while (true) {
      auto me = Join({.address = address_, .job = "digits", .index = index_});
      if (!me.ok()) {
        // The attempt that has just failed, or the one who was killed here is not known as lost.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      RunAttempt(**me);
    }
  }

 private:
  struct Flow {
    std::atomic<int64_t> acked = 0;
    std::atomic<int64_t> received = 0;
  };

  static void Print(const std::string& line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  // With the message, into the arena, and in chunks.
  static size_t BytesOf(int64_t number) {
    const auto salt = static_cast<size_t>(number);
    if (number % 24 == 23) return (size_t{3} << 19) + salt % 4096;
    return number % 4 == 3 ? 20'000 + salt % 70'000 : 1 + salt % 8000;
  }
  static std::string KeyOf(int32_t from, int32_t to) { return absl::StrCat(from, "to", to); }

  void RunAttempt(Member& me) {
    const auto failed = std::make_shared<std::promise<void>>();
    auto failure = failed->get_future();
    me.OnError([failed](const absl::Status&) { failed->set_value(); });
    auto rendezvous = Rendezvous::Open(me, {.shared_memory = memory_, .process_memory = false});
    std::vector<Flow> flows(static_cast<size_t>(me.size()));
    reasons_.clear();
    if (rendezvous.ok()) {
      Print(absl::StrCat("begin ", me.attempt()));
      Exchange(me, **rendezvous, flows);
    }
    // In the same attempt nobody may join again.
    if (failure.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      Print(absl::StrCat("wrong: no member was lost, but values do not come: ", reasons_));
      ::_exit(4);
    }
    if (!rendezvous.ok()) return;
    const int64_t attempt = me.attempt();
    *rendezvous = nullptr;
    std::string text = absl::StrCat("end ", attempt, " fds=", OpenDescriptors(),
                                    " maps=", MappingsOfSharedMemory());
    for (size_t other = 0; other < flows.size(); ++other) {
      absl::StrAppend(&text, " ", other, "=", flows[other].acked.load(), ",",
                      flows[other].received.load());
    }
    Print(text + reasons_);
  }

  void Exchange(Member& me, Rendezvous& rendezvous, std::vector<Flow>& flows) {
    auto step = rendezvous.OpenStep(me.attempt());
    if (!step.ok()) return;
    std::vector<std::thread> threads;
    for (int32_t other = 0; other < me.size(); ++other) {
      if (other == index_) continue;
      Flow& flow = flows[static_cast<size_t>(other)];
      threads.emplace_back(
          [this, step = *step, other, &flow]() mutable { Note(SendAll(step, other, flow.acked)); });
      threads.emplace_back([this, step = *step, other, &flow]() mutable {
        Note(ReceiveAll(step, other, flow.received));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  absl::Status SendAll(Step& step, int32_t to, std::atomic<int64_t>& acked) const {
    const std::string key = KeyOf(index_, to);
    for (int64_t number = 0;; ++number) {
      const Tensor value = Tensor::Copy(MakeContent(step.number(), key, number, BytesOf(number)));
      // A few at a time.
      const bool awaits = number % 5 == 4;
      const absl::Status sent = awaits ? step.SendAcked(key, to, value) : step.Send(key, to, value);
      if (!sent.ok()) return sent;
      if (awaits) acked = number + 1;
    }
  }

  absl::Status ReceiveAll(Step& step, int32_t from, std::atomic<int64_t>& count) const {
    const std::string key = KeyOf(from, index_);
    for (int64_t number = 0;; ++number) {
      const auto received = step.Recv(key, from);
      if (!received.ok()) return received.status();
      const std::string_view text = received->tensor.text();
      if (text.size() != BytesOf(number) || !IsContent(text, step.number(), key, number)) {
        Print(absl::StrCat("wrong: ", key, " number ", number, ", ", text.size(), " bytes"));
        ::_exit(4);
      }
      count = number + 1;
    }
  }

  void Note(const absl::Status& why) {
    const std::lock_guard lock(mutex_);
    absl::StrAppend(&reasons_, " ", ReasonOf(why));
  }

  const std::string address_;
  const int32_t index_;
  const bool memory_;
  std::mutex mutex_;
  std::string reasons_;
};

}  // namespace lockstep::faults
