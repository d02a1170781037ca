// The members of a job in this process, whose rendezvous go over a network that fails. Tests only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/testing/fault_proxy.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_keys.h"
#include "lockstep/wire/native/rendezvous_messages.h"
#include "tests/native/native_testing.h"

namespace lockstep {

using testing::FaultProxy;
using wire::native::Card;

constexpr absl::Duration kSoon = absl::Seconds(60);

inline std::string Pattern(size_t bytes, int salt = 0) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>(i * 31 + i / 251 + static_cast<size_t>(salt));
  }
  return text;
}

class RendezvousOverNetwork : public ::testing::Test {
 protected:
  void Begin(int32_t size, bool shared_memory = false, bool process_memory = false) {
    server_ = std::make_unique<NativeServer>(JobOf(size));
    members_ = JoinAll(*server_, size);
    shared_memory_ = shared_memory;
    process_memory_ = process_memory;
    Open();
  }
  // A rendezvous of each, anew.
  void Open() {
    rendezvous_.clear();
    steps_.clear();
    for (auto& member : members_) {
      auto rendezvous = Rendezvous::Open(*member, {.shared_memory = shared_memory_,
                                                   .process_memory = process_memory_,
                                                   .encrypt_data = encrypt_data_,
                                                   .first_lease = 100});
      ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
      rendezvous_.push_back(*std::move(rendezvous));
      steps_.push_back(*rendezvous_.back()->OpenStep(7));
    }
  }
  Step& step(size_t member) { return steps_[member]; }

  Card CardOf(size_t member) {
    const auto entry = members_[member]->keys().Get(KeyOf(member));
    EXPECT_TRUE(entry.ok()) << entry.status();
    return *wire::native::Decode<Card>(entry->value);
  }
  // Before anybody has read it.
  void ChangeCard(size_t member, const std::function<void(Card&)>& change) {
    Card card = CardOf(member);
    change(card);
    ASSERT_TRUE(members_[member]
                    ->keys()
                    .Set(KeyOf(member), wire::native::Encode(card), {.with_member = true})
                    .ok());
  }
  static std::string KeyOf(size_t member) {
    return std::string(wire::native::kRendezvousCards) + "/" + std::to_string(member);
  }
  // In front of what the member listens on.
  FaultProxy& Proxy(size_t member, std::string Card::*address, FaultProxy::Options options) {
    options.seed += proxies_.size();
    ChangeCard(member, [&](Card& card) {
      proxies_.push_back(std::make_unique<FaultProxy>(card.*address, options));
      card.*address = proxies_.back()->address();
    });
    return *proxies_.back();
  }
  // Sends both ways at the same time, and looks whether it comes.
  void ExchangeOnce() {
    ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("from 0")).ok());
    ASSERT_TRUE(step(1).Send("x", 0, Tensor::Copy("from 1")).ok());
    for (size_t to = 0; to < 2; ++to) {
      const auto received = step(to).Recv("x", static_cast<int32_t>(1 - to), {.timeout = kSoon});
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_EQ(received->tensor.text(), "from " + std::to_string(1 - to));
    }
  }
  std::vector<std::string> TransportsOfFirstTwo() {
    std::vector<std::string> transports;
    for (size_t i = 0; i < 2; ++i) {
      for (const auto& each : rendezvous_[i]->Transports()) transports.push_back(each.transport);
    }
    return transports;
  }

  bool shared_memory_ = false;
  bool process_memory_ = false;
  bool encrypt_data_ = false;
  std::vector<std::unique_ptr<FaultProxy>> proxies_;
  std::unique_ptr<NativeServer> server_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
  std::vector<Step> steps_;
};

}  // namespace lockstep
