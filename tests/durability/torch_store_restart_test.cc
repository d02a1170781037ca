// The server is killed while torch's clients write to a store that is durable, and started again on
// the same directory: at the same port are all keys, sums and queued values that were acknowledged,
// each once.
//
// LOCKSTEP_RESTARTS=N: how often (20). LOCKSTEP_SEED=N: when exactly.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/server/torch_client.h"
#include "tests/durability/server.h"

namespace lockstep {
namespace {

using server::AddBytes;
using server::GetBytes;
using server::PopBytes;
using server::PushBytes;
using server::SetBytes;
using server::TorchClient;

int NumberOf(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

std::string StoreAddress(const Server& server) {
  const auto ready = nlohmann::json::parse(Read(server.directory() + "/ready"), nullptr, false);
  return ready.is_object() ? ready["jobs"]["work"]["store"].get<std::string>() : "";
}

// Once the server is back.
std::unique_ptr<TorchClient> Connect(const std::string& address) {
  const auto give_up = Clock::now() + kPatience;
  while (Clock::now() < give_up) {
    auto client = std::make_unique<TorchClient>(address);
    if (client->connected()) return client;
    std::this_thread::yield();
  }
  return nullptr;
}

int64_t NumberIn(const std::string& bytes) {
  int64_t number = -1;
  if (bytes.size() >= 8) std::memcpy(&number, bytes.data(), 8);
  return number;
}

// Of a value that is a number in digits; -1: it is none, or did not come.
int64_t DecimalFrom(TorchClient& client) {
  std::string text = client.Receive(8);
  const int64_t size = NumberIn(text);
  if (size < 0 || size > 20) return -1;
  const size_t all = 8 + static_cast<size_t>(size);
  if (text.size() < all) text += client.Receive(all - text.size());
  int64_t number = 0;
  return absl::SimpleAtoi(text.substr(8), &number) ? number : -1;
}

TEST(TorchStoreRestart, WhatWasAcknowledgedIsThereOnce) {
  const int restarts = NumberOf("LOCKSTEP_RESTARTS", 20);
  const int seed = NumberOf("LOCKSTEP_SEED", static_cast<int>(std::random_device()()));
  SCOPED_TRACE(absl::StrCat("LOCKSTEP_SEED=", seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  Server server("work=2", {"--torch-store-durable"});
  const std::string address = StoreAddress(server);
  ASSERT_NE(address, "") << server.Log();

  int64_t sum = 0;     // acknowledged
  int64_t pushed = 0;  // likewise
  int64_t last = 0;    // set before the last sum that was acknowledged
  for (int restart = 0; restart < restarts; ++restart) {
    const auto client = Connect(address);
    ASSERT_NE(client, nullptr) << server.Log();
    // One that was not answered may have taken effect, or not.
    client->Send(AddBytes("/sum", 0));
    const int64_t found = NumberIn(client->Receive(8));
    ASSERT_GE(found, sum) << server.Log();
    ASSERT_LE(found, sum + 1);
    sum = found;
    client->Send("\x10" + server::Text("/queue"));
    const int64_t length = NumberIn(client->Receive(8));
    ASSERT_GE(length, pushed);
    ASSERT_LE(length, pushed + 1);
    pushed = length;
    if (sum > 0) {
      client->Send(GetBytes("/last"));
      ASSERT_GE(DecimalFrom(*client), last) << "nothing older comes back";
    }

    std::thread killer([&server, after = std::chrono::microseconds(random() % 30'000)] {
      std::this_thread::sleep_for(after);  // anywhere in what is done meanwhile
      server.Kill();
    });
    while (true) {
      client->TrySend(SetBytes("/last", absl::StrCat(sum + 1)) + AddBytes("/sum", 1));
      if (client->Receive(8).size() < 8) break;
      last = ++sum;
      client->TrySend(PushBytes("/queue", absl::StrCat(pushed)) + "\x10" + server::Text("/queue"));
      if (client->Receive(8).size() < 8) break;
      ++pushed;
    }
    killer.join();
    server.Restart();
  }

  const auto client = Connect(address);
  ASSERT_NE(client, nullptr) << server.Log();
  for (int64_t i = 0; i < pushed; ++i) {
    const std::string value = absl::StrCat(i);
    client->Send(PopBytes("/queue"));
    ASSERT_EQ(client->Receive(16 + value.size()).substr(16), value) << "in order, and none twice";
  }
  EXPECT_GT(sum, 0) << "something was done between the kills";
}

}  // namespace
}  // namespace lockstep
