#include "lockstep/platform/link/client.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "asio/io_context.hpp"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

// What std::chrono can add to now.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

}  // namespace

class Client::Impl {
 public:
  Impl(const std::shared_ptr<Servers>& servers, absl::Duration timeout, const Options& options)
      : address_(servers->text()), io_(1) {
    link_ = ClientLink::Dial(io_, servers, std::min(timeout, kLongest), options.who, options.link,
                             {.ready =
                                  [this](const wire::native::Welcome&) {
                                    ready_ = true;
                                    address_ = runtime::ToString(link_->server());
                                  },
                              .closed = [](auto) {}});
  }
  ~Impl() { link_->Abandon(); }

  absl::Status WaitUntilReady(absl::Duration timeout) {
    if (!RunUntil(timeout, [this] { return ready_ || link_->closed(); })) {
      if (runtime::AreServers(address_)) {
        const absl::Status why = link_->why_not_found();
        return wire::native::WithReason(
            absl::DeadlineExceededError(absl::StrFormat("no server welcomed us within %s: %s",
                                                        absl::FormatDuration(timeout),
                                                        std::string(why.message()))),
            wire::native::ReasonOf(why));
      }
      return absl::DeadlineExceededError(
          absl::StrFormat("%s did not welcome us within %s: it is overloaded, or no lockstep "
                          "server's --listen address",
                          address_, absl::FormatDuration(timeout)));
    }
    return link_->why();
  }

  const std::string& server() const { return address_; }

  absl::StatusOr<std::string> Call(RequestKind kind, std::string payload, absl::Duration timeout) {
    // Shared: the answer may come after we stopped waiting for it.
    auto result = std::make_shared<std::optional<absl::StatusOr<std::string>>>();
    link_->Call(kind, std::move(payload),
                [result](absl::StatusOr<std::string> answer) { *result = std::move(answer); });
    if (!RunUntil(timeout, [&] { return result->has_value(); })) {
      return absl::DeadlineExceededError(
          absl::StrFormat("%s did not answer within %s", address_, absl::FormatDuration(timeout)));
    }
    return **std::move(result);
  }

 private:
  // Whether `done` came to hold in time.
  template <class Condition>
  bool RunUntil(absl::Duration timeout, Condition done) {
    const auto deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(std::min(timeout, kLongest));
    while (!done()) {
      if (io_.run_one_until(deadline) == 0) return done();
    }
    return true;
  }

  std::string address_;  // of all servers, until one has welcomed us
  asio::io_context io_;
  std::shared_ptr<ClientLink> link_;
  bool ready_ = false;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        absl::Duration timeout, Options options) {
  auto servers = Servers::Read(address);
  if (!servers.ok()) return servers.status();
  auto impl = std::make_unique<Impl>(*servers, timeout, options);
  if (absl::Status ready = impl->WaitUntilReady(timeout); !ready.ok()) return ready;
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

const std::string& Client::server() const { return impl_->server(); }

absl::StatusOr<std::string> Client::CallRaw(RequestKind kind, std::string payload,
                                            absl::Duration timeout) {
  return impl_->Call(kind, std::move(payload), timeout);
}

}  // namespace lockstep::link
