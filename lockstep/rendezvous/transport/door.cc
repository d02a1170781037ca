#include "lockstep/rendezvous/transport/door.h"

#include <sys/socket.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/steady_timer.hpp"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/rendezvous/transport/proof.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;
using link::LinkId;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Of a new connection, whose buffer is empty.
bool SayAll(tcp::socket& socket, const std::string& bytes) {
  return ::send(socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// Reads until there are so many bytes, and never more, since what follows is for others. OK and
// false: they have not come yet.
absl::StatusOr<bool> ReadUpTo(tcp::socket& socket, size_t bytes, std::string& to) {
  while (to.size() < bytes) {
    char room[kProofBytes];
    static_assert(kProofBytes >= kChallengeBytes && kProofBytes >= kCounterproofBytes);
    const ssize_t count = ::recv(socket.native_handle(), room, bytes - to.size(), 0);
    if (count == 0) return absl::UnavailableError("it closed the connection");
    if (count < 0 && WouldBlock()) return false;
    if (count < 0) return absl::UnavailableError("the connection broke");
    to.append(room, static_cast<size_t>(count));
  }
  return true;
}

link::LinkPlaces::Limits LimitsOf(const Door::Options& options) {
  return {.connections_max = std::numeric_limits<size_t>::max(),
          .connections_per_host_max = 0,
          .reserved = 0,
          .greetings_max = options.unproven_max,
          .first_request_timeout = absl::InfiniteDuration(),
          .hello_timeout = absl::InfiniteDuration()};
}

}  // namespace

// --- Listening ---

// One connection, until its proof has come.
class Door::Guest : public std::enable_shared_from_this<Guest> {
 public:
  using Ended = std::function<void(const absl::Status& why)>;

  Guest(asio::io_context& io, tcp::socket socket, std::string_view secret)
      : socket_(std::move(socket)),
        taker_(runtime::Secrets(), secret, runtime::RandomBytes(kProofNumberBytes)),
        timer_(io) {}
  ~Guest() { runtime::CloseSocket(socket_); }

  // `ended` lets it go; it is called later, once.
  void Start(absl::Duration timeout, Ended ended) {
    ended_ = std::move(ended);
    timer_.expires_after(absl::ToChronoNanoseconds(timeout));
    timer_.async_wait([weak = weak_from_this(), timeout](const asio::error_code& error) {
      const auto self = weak.lock();
      if (error || self == nullptr) return;
      self->End(absl::DeadlineExceededError(absl::StrCat(
          "no proof came within ", absl::FormatDuration(timeout), " (proof_timeout)")));
    });
    // Of a connection that is broken already, the first read says so.
    SayAll(socket_, taker_.Challenge());
    Wait();
  }

  void Close() {
    ended_ = nullptr;
    timer_.cancel();
    runtime::CloseSocket(socket_);
  }
  tcp::socket Release() { return std::move(socket_); }

 private:
  void Wait() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         if (!error && self->ended_) self->Read();
                       });
  }

  void Read() {
    const auto whole = ReadUpTo(socket_, kProofBytes, come_);
    if (!whole.ok()) return End(whole.status());
    if (!*whole) return Wait();
    const auto counterproof = taker_.Take(come_);
    if (!counterproof.ok()) return End(counterproof.status());
    End(SayAll(socket_, *counterproof) ? absl::OkStatus()
                                       : absl::UnavailableError("the connection broke"));
  }

  void End(const absl::Status& why) {
    timer_.cancel();
    if (const Ended ended = std::exchange(ended_, nullptr)) ended(why);
  }

  tcp::socket socket_;
  const ProofTaker taker_;
  asio::steady_timer timer_;
  std::string come_;
  Ended ended_;
};

absl::StatusOr<std::shared_ptr<Door>> Door::Start(asio::io_context& io, Options options,
                                                  Proven proven) {
  std::shared_ptr<Door> door(new Door(io, std::move(options), std::move(proven)));
  auto listener = TcpListener::Start(
      io, door->options_.host,
      [weak = door->weak_from_this()](tcp::socket socket) {
        if (const auto self = weak.lock()) return self->Accepted(std::move(socket));
        runtime::CloseSocket(socket);
      },
      door->options_.refused);
  if (!listener.ok()) return listener.status();
  door->listener_ = *std::move(listener);
  return door;
}

Door::Door(asio::io_context& io, Options options, Proven proven)
    : io_(io),
      options_(std::move(options)),
      proven_(std::move(proven)),
      places_(LimitsOf(options_)) {}

Door::~Door() {
  if (listener_) Close();
}

void Door::Close() {
  proven_ = nullptr;
  listener_->Close();
  for (const auto& [id, guest] : guests_) {
    places_.Leave(id);
    guest->Close();
  }
  guests_.clear();
}

void Door::Accepted(tcp::socket socket) {
  asio::error_code gone;
  const tcp::endpoint from = socket.remote_endpoint(gone);
  if (gone || proven_ == nullptr) return runtime::CloseSocket(socket);
  if (options_.secret.empty()) return proven_(std::move(socket));
  if (places_.GreetingsAreFull()) {
    End(*places_.OldestGreeting(),
        absl::ResourceExhaustedError("its place was needed before its proof came (unproven_max)"));
  }
  const LinkId id(++last_guest_);
  const auto guest = std::make_shared<Guest>(io_, std::move(socket), options_.secret);
  guests_[id] = guest;
  places_.Add(id, from.address());
  guest->Start(options_.timeout, [weak = weak_from_this(), id, from](const absl::Status& why) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->End(id, why.ok() ? why
                           : absl::Status(why.code(), absl::StrCat(runtime::ToString(from), ": ",
                                                                   why.message())));
  });
}

void Door::End(LinkId id, const absl::Status& why) {
  const auto node = guests_.extract(id);
  if (node.empty()) return;
  places_.Leave(id);
  tcp::socket socket = node.mapped()->Release();
  node.mapped()->Close();
  if (why.ok()) return proven_(std::move(socket));
  runtime::CloseSocket(socket);
  if (options_.refused == nullptr) return;
  options_.refused(absl::StrCat(address(),
                                ": a connection was closed that did not prove that it "
                                "comes from a member of the job: ",
                                why.message()));
}

// --- Dialing ---

namespace {

// One connection, until the counterproof has come.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(asio::io_context& io, const runtime::Address& address, std::string secret,
         runtime::DialDone done)
      : address_(runtime::ToString(address)),
        secret_(std::move(secret)),
        socket_(io),
        giver_(runtime::Secrets(), secret_, runtime::RandomBytes(kProofNumberBytes)),
        timer_(io),
        done_(std::move(done)) {}
  ~Dialer() { runtime::CloseSocket(socket_); }

  void Connected(absl::StatusOr<tcp::socket> socket, absl::Duration timeout) {
    if (!socket.ok()) return End(socket.status());
    socket_ = *std::move(socket);
    asio::error_code ignored;  // of a dead socket, which the first read will tell
    socket_.non_blocking(true, ignored);
    timer_.expires_after(absl::ToChronoNanoseconds(timeout));
    timer_.async_wait([self = shared_from_this(), timeout](const asio::error_code& error) {
      if (error) return;
      self->End(absl::DeadlineExceededError(
          absl::StrCat(self->address_, " proved nothing within ", absl::FormatDuration(timeout))));
    });
    Wait();
  }

 private:
  void Wait() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         if (!error && self->done_) self->Read();
                       });
  }

  void Read() {
    const auto whole = ReadUpTo(socket_, answered_ ? kCounterproofBytes : kChallengeBytes, come_);
    if (!whole.ok()) return End(whole.status());
    if (!*whole) return Wait();
    const std::string come = std::exchange(come_, {});
    if (answered_) return End(giver_.TakeCounterproof(come));
    const auto proof = giver_.Take(come);
    if (!proof.ok()) return End(proof.status());
    if (!SayAll(socket_, *proof)) return End(absl::UnavailableError("the connection broke"));
    answered_ = true;
    Wait();
  }

  void End(const absl::Status& why) {
    auto done = std::exchange(done_, nullptr);
    if (done == nullptr) return;
    timer_.cancel();
    if (why.ok()) return done(std::move(socket_));
    runtime::CloseSocket(socket_);
    done(absl::Status(why.code(), absl::StrCat(address_, ": ", why.message())));
  }

  const std::string address_;
  const std::string secret_;
  tcp::socket socket_;
  ProofGiver giver_;
  asio::steady_timer timer_;
  runtime::DialDone done_;
  bool answered_ = false;
  std::string come_;
};

}  // namespace

void DialDoor(asio::io_context& io, const runtime::Address& address, std::string secret,
              absl::Duration timeout, runtime::DialDone done) {
  if (secret.empty()) return runtime::Dial(io, address, timeout, std::move(done));
  const auto dialer = std::make_shared<Dialer>(io, address, std::move(secret), std::move(done));
  runtime::Dial(io, address, timeout, [dialer, timeout](absl::StatusOr<tcp::socket> socket) {
    dialer->Connected(std::move(socket), timeout);
  });
}

}  // namespace lockstep::transport
