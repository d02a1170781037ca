#include "lockstep/agent/call_names.h"

#include <string>
#include <type_traits>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "lockstep/coord/events.h"
#include "lockstep/stock/grpc/families.h"

namespace lockstep::agent {
namespace {

// What the server makes of an empty message of that method.
bool ServerKeepsAnswer(const wire::stock::Family& family, size_t method) {
  google::protobuf::io::ArrayInputStream nothing("", 0);
  const auto decoded = family.Decode(method, &nothing, {.call = CallId(1)});
  const auto* event = std::get_if<coord::Event>(&decoded.event);
  if (event == nullptr) return false;  // it means nothing
  return std::visit(
      []<class Event>(const Event&) {
        if constexpr (requires { Event::kTraits; }) return Event::kTraits.takes_effect;
        return false;
      },
      *event);
}

TEST(CallNames, WhatTakesEffectIsWhatTheServerSays) {
  int kept = 0;
  for (const auto& family : net::MakeFamilies({})) {
    for (size_t method = 0; method < family->methods().size(); ++method) {
      const std::string path =
          "/" + std::string(family->service()) + "/" + std::string(family->methods()[method]);
      EXPECT_EQ(TakesEffect(path), ServerKeepsAnswer(*family, method)) << path;
      kept += TakesEffect(path) ? 1 : 0;
    }
  }
  EXPECT_EQ(kept, 10) << "five in each family";
}

std::string Bytes(const wire::stock::EncodedAnswer& answer) {
  return answer.head + (answer.tail ? *answer.tail : "");
}

TEST(CallNames, ARegistrationIsAnsweredAsAHeartbeatIs) {
  constexpr ServiceIncarnation kService(77);
  const wire::stock::Asked asked = {.service = kService};
  for (const auto& family : net::MakeFamilies({})) {
    const auto method = [&](std::string_view name) {
      const auto names = family->methods();
      return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    const auto registered =
        family->EncodeAnswer(method("RegisterTask"), coord::Registered{kService}, &asked);
    const auto beat =
        family->EncodeAnswer(method("Heartbeat"), coord::HeartbeatTaken{kService}, &asked);
    EXPECT_EQ(Bytes(registered), Bytes(beat)) << family->service();
    EXPECT_FALSE(Bytes(beat).empty());
  }
}

}  // namespace
}  // namespace lockstep::agent
