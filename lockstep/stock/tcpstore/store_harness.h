// Tests only: a store, and what its clients were told, as short texts.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/store.h"

namespace lockstep::tcpstore {

inline std::string TextOf(const ValuePtr& value) { return value ? *value : "-"; }

inline std::vector<std::string> NamesIn(const KeyNames& names) {
  std::vector<std::string> all;
  for (const ValuePtr& slice : names.packed) {
    for (size_t at = 0; at < slice->size();) {
      uint64_t size = 0;
      std::memcpy(&size, slice->data() + at, sizeof(size));
      all.push_back(slice->substr(at + sizeof(size), size));
      at += sizeof(size) + size;
    }
  }
  EXPECT_EQ(all.size(), names.count);
  return all;
}

// "00", "1", "key=..." and so on: what an answer says.
inline std::string TextOf(const Answer& answer) {
  struct Say {
    std::string operator()(Readiness is) const {
      return is == Readiness::kReady ? "ready" : "not ready";
    }
    std::string operator()(WaitCancelled /*is*/) const { return "cancelled"; }
    std::string operator()(Number is) const { return absl::StrCat(is.value); }
    std::string operator()(Echo is) const { return absl::StrCat("echo ", is.number); }
    std::string operator()(const Value& is) const { return TextOf(is.value); }
    std::string operator()(const SentValue& is) const { return absl::StrCat("sent ", is.value); }
    std::string operator()(const Values& is) const {
      return absl::StrJoin(is.values, ",", [](std::string* out, const ValuePtr& value) {
        out->append(TextOf(value));
      });
    }
    std::string operator()(const Popped& is) const {
      return absl::StrCat(is.length, " ", TextOf(is.value));
    }
    std::string operator()(const KeyNames& is) const { return absl::StrJoin(NamesIn(is), ","); }
    std::string operator()(const Encoded& is) const { return TextOf(is.bytes); }
  };
  return std::visit(Say(), answer);
}

class StoreHarness : public ::testing::Test {
 protected:
  explicit StoreHarness(const StoreOptions& options = {}) : store_(options) { CheckInvariants(); }

  // Client `n`, connected when it is first heard of.
  ConnectionId Client(uint64_t n) {
    const ConnectionId id(n);
    if (known_.emplace(n, true).second) store_.Connected(id, absl::StrCat("host:", n));
    return id;
  }

  // What all were told by it, in order: "1: ready", "2: closed".
  std::vector<std::string> Do(uint64_t client, const Command& command) {
    Effects effects;
    now_ = now_ + absl::Seconds(1);
    store_.Handle(now_, Client(client), command, effects);
    // Whoever asks for a list waits for it.
    while (std::holds_alternative<ListKeys>(command) && store_.lists()) store_.ListSome(effects);
    return Told(effects);
  }

  std::vector<std::string> Leave(uint64_t client) {
    Effects effects;
    store_.Left(Client(client), effects);
    return Told(effects);
  }

  std::vector<std::string> Told(const Effects& effects) {
    std::vector<std::string> told;
    for (const Reply& reply : effects.replies) {
      told.push_back(absl::StrCat(reply.to.value(), ": ", TextOf(reply.answer)));
    }
    for (const Refusal& refusal : effects.refusals) {
      told.push_back(absl::StrCat(refusal.connection.value(), ": closed"));
      why_ = refusal.why;
    }
    return told;
  }

  Store store_;
  std::map<uint64_t, bool> known_;
  Time now_ = Time::FromNanoseconds(0);
  std::string why_;  // of the last refusal
};

}  // namespace lockstep::tcpstore
