#include "fuzz/stock_fuzzer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/stock/tensorflow/family.h"
#include "lockstep/stock/xla/family.h"

namespace lockstep::fuzz {
namespace {

using wire::stock::Family;

constexpr size_t kCallsMax = 24;
constexpr uint8_t kFamilyBit = 0x80;

// A call that waits for its answer.
struct Asking {
  const Family* family;
  size_t method;
  std::unique_ptr<wire::stock::Asked> asked;
};

class Job {
 public:
  Job() : coordinator_({.size = 2, .incarnation_seed = 1}) {}

  void Call(const Family& family, size_t method, std::string_view message) {
    const CallId call(++last_call_);
    google::protobuf::io::ArrayInputStream stream(message.data(), static_cast<int>(message.size()));
    auto decoded = family.Decode(method, &stream, {.call = call, .peer = "127.0.0.1:1"});
    if (std::holds_alternative<coord::ErrorPtr>(decoded.event)) {
      const auto& error = std::get<coord::ErrorPtr>(decoded.event);
      LOCKSTEP_CHECK(error != nullptr && error->code != absl::StatusCode::kOk);
      LOCKSTEP_CHECK(family.EncodeError(*error, decoded.asked.get()).code == error->code);
      return;
    }
    auto& event = std::get<coord::Event>(decoded.event);
    MeanThisAttempt(family, event, decoded.asked.get());
    open_.emplace(call, Asking{&family, method, std::move(decoded.asked)});
    Handle(std::move(event));
  }

  void End() {
    Handle(coord::DeadlineReached{});
    Handle(coord::Stop{});
    LOCKSTEP_CHECK(open_.empty());
  }

 private:
  // Whoever says which attempt he means is taken to mean this one, which no random bytes would hit.
  void MeanThisAttempt(const Family& family, coord::Event& event, wire::stock::Asked* asked) const {
    const ServiceIncarnation service = coordinator_.service_incarnation();
    if (!family.requests_name_the_attempt()) return family.SetAttempt(service, event, asked);
    std::visit(
        [&](auto& e) {
          if constexpr (requires { e.caller.service; }) {
            if (e.caller.service.value() != 0) e.caller.service = service;
          }
        },
        event);
  }

  void Handle(coord::Event event) {
    now_ = now_ + absl::Seconds(1);
    for (const coord::Reply& reply : coordinator_.Handle(now_, std::move(event)).replies) {
      const auto node = open_.extract(reply.call);
      LOCKSTEP_CHECK(!node.empty());  // answered once, and only what was asked
      const Asking& asking = node.mapped();
      if (reply.error) {
        asking.family->EncodeError(*reply.error, asking.asked.get());
      } else {
        asking.family->EncodeAnswer(asking.method, reply.answer, asking.asked.get());
      }
    }
  }

  coord::Coordinator coordinator_;
  Time now_;
  uint64_t last_call_ = 0;
  std::map<CallId, Asking> open_;
};

}  // namespace

void ReadStock(std::string_view bytes) {
  static const Family* const kXla = wire::xla::MakeFamily().release();
  static const Family* const kTensorflow = wire::tensorflow::MakeFamily({}).release();
  Job job;
  for (size_t calls = 0; bytes.size() >= 2 && calls < kCallsMax; ++calls) {
    const auto choice = static_cast<uint8_t>(bytes[0]);
    const Family& family = (choice & kFamilyBit) != 0 ? *kTensorflow : *kXla;
    const size_t length = std::min<size_t>(static_cast<uint8_t>(bytes[1]), bytes.size() - 2);
    job.Call(family, (choice & ~kFamilyBit) % family.methods().size(), bytes.substr(2, length));
    bytes.remove_prefix(2 + length);
  }
  job.End();
}

}  // namespace lockstep::fuzz
