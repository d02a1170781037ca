#include "lockstep/preempt/webhook_watch.h"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/preempt/connection.h"
#include "lockstep/preempt/http_wire.h"
#include "lockstep/preempt/payload.h"
#include "lockstep/preempt/webhook_book.h"

namespace lockstep::preempt {
namespace {

// For a request to come whole and its answer to leave. One at a time: who is slow holds up others
// for no longer than that.
constexpr absl::Duration kRequestTime = absl::Seconds(2);

class WebhookWatch final : public Watch {
 public:
  explicit WebhookWatch(WebhookOptions options)
      : options_(std::move(options)), book_(options_.token) {}

  absl::Status Open() override {
    absl::StatusOr<Listening> listening = ListenAt(options_.at);
    if (!listening.ok()) return listening.status();
    listening_ = *std::move(listening);
    return absl::OkStatus();
  }
  void Close() override { listening_ = {}; }

  Sight Look(Clock clock, int interrupt) override {
    if (looked_) {
      const Waited waited = WaitFor(listening_.socket.get(), POLLIN, interrupt, Time::Infinite());
      if (waited == Waited::kInterrupted) return {.health = absl::CancelledError("broken off")};
      Descriptor accepted = AcceptAt(listening_.socket.get());
      if (accepted.get() < 0 && (errno == EMFILE || errno == ENFILE)) {
        return {.health = absl::ResourceExhaustedError("there is no descriptor for a connection"),
                .next = absl::Milliseconds(100)};
      }
      if (accepted.get() >= 0) {
        Serve(clock, std::move(accepted), interrupt);
      }
    }
    looked_ = true;
    return {.notices = book_.notices()};
  }

  std::string detail() const override {
    const runtime::Address at = {.host = options_.at.host,
                                 .port = static_cast<uint16_t>(listening_.port)};
    return absl::StrCat("http://", runtime::ToString(at), "/notices");
  }

 private:
  void Serve(Clock clock, Descriptor accepted, int interrupt) {
    // What Asio throws where nothing is left concerns this request only.
    Guarded([&] {
      Connection connection({.deadline = clock().steady + kRequestTime, .interrupt = interrupt});
      connection.TakeOver(std::move(accepted));
      LayerStream stream(connection, connection.socket());
      Serve(clock, stream);
      return absl::OkStatus();
    }).IgnoreError();
  }

  void Serve(Clock clock, Stream& stream) {
    HttpReader reader(HttpReader::Kind::kRequest, kPayloadBytesMax);
    absl::Status status;
    while (status.ok() && !reader.done()) {
      const absl::StatusOr<std::string> some = stream.Read();
      status = !some.ok() ? some.status() : some->empty() ? reader.End() : reader.Take(*some);
    }
    // Who went away or is slow is no failure of ours.
    std::string answer;
    if (status.ok()) {
      answer = book_.Answer(clock(), reader.message());
    } else if (absl::IsResourceExhausted(status)) {
      answer = WebhookBook::Refusal(413, "the request is too large");
    } else {
      answer = WebhookBook::Refusal(400, "the request is no whole HTTP request");
    }
    stream.Write(answer).IgnoreError();
  }

  const WebhookOptions options_;
  WebhookBook book_;
  Listening listening_;
  bool looked_ = false;  // once without waiting, so that health is known
};

}  // namespace

std::unique_ptr<Watch> MakeWebhookWatch(WebhookOptions options) {
  return std::make_unique<WebhookWatch>(std::move(options));
}

}  // namespace lockstep::preempt
