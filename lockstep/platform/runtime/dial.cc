#include "lockstep/platform/runtime/dial.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::runtime {
namespace {

using asio::ip::tcp;

// One attempt to connect, alive as long as it has an operation pending.
class Dialing : public std::enable_shared_from_this<Dialing> {
 public:
  Dialing(asio::io_context& io, const Address& address, absl::Duration timeout, DialDone done)
      : address_(address),
        timeout_(timeout),
        done_(std::move(done)),
        resolver_(io),
        socket_(io),
        timer_(io) {}
  ~Dialing() { CloseSocket(socket_); }
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;

  void Start() {
    timer_.expires_after(absl::ToChronoNanoseconds(timeout_));
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->TimedOut();
    });
    asio::error_code is_name;
    const asio::ip::address number = asio::ip::make_address(address_.host, is_name);
    if (!is_name) {
      // Asio would start a thread to look it up.
      endpoints_.emplace_back(number, address_.port);
      asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (self->done_ != nullptr) self->ConnectNext("");
      });
      return;
    }
    resolver_.async_resolve(
        address_.host, std::to_string(address_.port), tcp::resolver::numeric_service,
        [self = shared_from_this()](const asio::error_code& error, const auto& results) {
          self->Resolved(error, results);
        });
  }

 private:
  void Resolved(const asio::error_code& error, const tcp::resolver::results_type& results) {
    if (done_ == nullptr) return;
    if (error) return Finish(absl::UnavailableError(Sentence(error.message())));
    for (const auto& entry : results) endpoints_.push_back(entry.endpoint());
    ConnectNext("the name has no address");
  }

  void ConnectNext(const std::string& last_failure) {
    if (next_ == endpoints_.size()) {
      return Finish(absl::UnavailableError(Sentence(last_failure)));
    }
    const tcp::endpoint endpoint = endpoints_[next_++];
    CloseSocket(socket_);
    // By hand, since Asio opens sockets that a child inherits.
    const int fd = OpenSocket(endpoint.protocol().family(), SOCK_STREAM);
    asio::error_code error(errno, asio::error::get_system_category());
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      return Finish(absl::ResourceExhaustedError(
          Sentence(absl::StrCat(error.message(), " (RLIMIT_NOFILE; raise it with ulimit -n)"))));
    }
    if (fd < 0) return ConnectNext(error.message());
    error.clear();
    socket_.assign(endpoint.protocol(), fd, error);
    if (error) {
      ::close(fd);
      return ConnectNext(error.message());
    }
    socket_.async_connect(endpoint,
                          [self = shared_from_this()](const asio::error_code& connect_error) {
                            self->Connected(connect_error);
                          });
  }

  void Connected(const asio::error_code& error) {
    if (done_ == nullptr) return;
    if (error) return ConnectNext(error.message());
    asio::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    Finish(std::move(socket_));
  }

  void TimedOut() {
    if (done_ == nullptr) return;
    Finish(absl::DeadlineExceededError(
        Sentence(absl::StrFormat("no answer in %s", absl::FormatDuration(timeout_)))));
  }

  void Finish(absl::StatusOr<tcp::socket> result) {
    timer_.cancel();
    resolver_.cancel();
    CloseSocket(socket_);
    std::exchange(done_, nullptr)(std::move(result));
  }

  std::string Sentence(const std::string& why) const {
    return absl::StrFormat("cannot connect to %s: %s", ToString(address_), why);
  }

  const Address address_;
  const absl::Duration timeout_;
  DialDone done_;  // null once it has been called
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::vector<tcp::endpoint> endpoints_;
  size_t next_ = 0;
};

}  // namespace

void Dial(asio::io_context& io, const Address& address, absl::Duration timeout, DialDone done) {
  std::make_shared<Dialing>(io, address, timeout, std::move(done))->Start();
}

absl::StatusOr<tcp::acceptor> Listen(asio::io_context& io, const Address& address) {
  const auto failed = [&](const asio::error_code& error, std::string_view advice) {
    return absl::UnavailableError(
        absl::StrFormat("cannot listen on %s: %s%s", ToString(address), error.message(), advice));
  };
  asio::error_code error;
  tcp::resolver resolver(io);
  const auto results =
      resolver.resolve(address.host, std::to_string(address.port),
                       tcp::resolver::numeric_service | tcp::resolver::passive, error);
  if (error || results.empty()) return failed(error, "; is the host's name right?");
  const tcp::endpoint endpoint = results.begin()->endpoint();
  tcp::acceptor acceptor(io);
  const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed({errno, asio::error::get_system_category()}, "");
  acceptor.assign(endpoint.protocol(), fd, error);
  LOCKSTEP_CHECK(!error);
  // A server that is started again must not wait for its old connections to be forgotten.
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  if (error == asio::error::address_in_use) {
    return failed(error, "; another process has it: stop that one or choose another port");
  }
  if (error == asio::error::access_denied) {
    return failed(error, "; choose a port above 1023");
  }
  if (error) return failed(error, "; is this an address of this host?");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed(error, "");
  return acceptor;
}

std::string ToString(const tcp::endpoint& endpoint) {
  return ToString(Address{.host = endpoint.address().to_string(), .port = endpoint.port()});
}

}  // namespace lockstep::runtime
