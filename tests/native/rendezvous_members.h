// Members of one job with the rendezvous of each, all in this process; their values go through
// shared memory as between processes, or over the network. Tests only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/client/rendezvous.h"
#include "tests/native/native_testing.h"

namespace lockstep {

// The parameter: whether memory is shared.
class RendezvousOfMembers : public testing::TestWithParam<bool> {
 public:
  static std::string NameOfParam(const testing::TestParamInfo<bool>& shared) {
    return shared.param ? "Memory" : "Network";
  }

 protected:
  // Each in step 7.
  void Begin(int32_t size, RendezvousOptions options = {}) {
    options.shared_memory = GetParam();
    options.process_memory = false;
    server_ = std::make_unique<NativeServer>(JobOf(size));
    members_ = JoinAll(*server_, size);
    for (auto& member : members_) {
      auto rendezvous = Rendezvous::Open(*member, options);
      ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
      rendezvous_.push_back(*std::move(rendezvous));
      steps_.push_back(*rendezvous_.back()->OpenStep(7));
    }
  }
  Step& step(size_t member) { return steps_[member]; }
  // Its rendezvous ends; its step stays in our hand.
  void End(size_t member) { rendezvous_[member] = nullptr; }

  std::unique_ptr<NativeServer> server_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  std::vector<Step> steps_;
};

constexpr absl::Duration kSoon = absl::Seconds(20);

// The text of what came, or the error.
inline std::string TextOf(const absl::StatusOr<Received>& received) {
  return received.ok() ? std::string(received->tensor.text()) : received.status().ToString();
}

// An asynchronous receive. Being called back twice ends the test.
class Receiving {
 public:
  Receiving(Step& step, std::string_view name, int32_t from, CallOptions options = {}) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Received>>>();
    result_ = promise->get_future();
    pending_ = step.RecvAsync(
        name, from, std::move(options),
        [promise](absl::StatusOr<Received> received) { promise->set_value(std::move(received)); });
  }
  void Cancel() { pending_.Cancel(); }
  bool done() const {
    return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Waits; once.
  absl::StatusOr<Received> Result() { return result_.get(); }

 private:
  std::future<absl::StatusOr<Received>> result_;
  Pending pending_;
};

// As long as said, each byte another.
inline std::string Pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

}  // namespace lockstep
