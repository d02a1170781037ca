#include "lockstep/client/engine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/fake_server.h"
#include "lockstep/client/threads.h"
#include "lockstep/client/typed.h"

namespace lockstep::client {
namespace {

using ::testing::SizeIs;

Request WaitForKey(std::string key) {
  const wire::native::GetKey message = {.key = std::move(key), .wait = true};
  return {.kind = link::KindOf<wire::native::GetKey>::kKind,
          .type = CallType::kWatch,
          .payload = wire::native::Encode(message),
          .what = "a value"};
}

// The loop hears of both in one turn.
TEST(Engine, ACallThatIsCancelledMakesRoomForTheNext) {
  FakeServer server;
  const auto servers = link::Servers::Read(server.address());
  ASSERT_TRUE(servers.ok()) << servers.status();
  const auto engine = Engine::Start(
      {.servers = *servers, .who = "test", .machine = {.job = "digits", .client_calls_max = 1}});
  const auto opened = engine->Call({.type = CallType::kOpen, .what = "the server"}, nullptr);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Pending first = engine->CallAsync(WaitForKey("first"), [](Engine::Answer&&) {});
  server.WaitFor<wire::native::GetKey>();

  absl::Status second;
  ProcessLoop().Post([&] {
    first.Cancel();
    engine->CallAsync(WaitForKey("second"),
                      [&](Engine::Answer&& answer) { second = answer.status(); });
  });
  EXPECT_THAT(server.WaitFor<wire::native::GetKey>(2), SizeIs(2)) << second;
  engine->Close();
  EXPECT_TRUE(absl::IsCancelled(second)) << second;
}

}  // namespace
}  // namespace lockstep::client
