#include "lockstep/rendezvous/transport/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/steady_timer.hpp"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/handshake.h"

namespace lockstep::transport {

using asio::ip::tcp;

// One end of a connection, until both ends have proven that they know the secret.
class Entrance : public std::enable_shared_from_this<Entrance> {
 public:
  using Ended = absl::AnyInvocable<void(const absl::Status& why)>;

  Entrance(asio::io_context& io, tcp::socket socket, std::unique_ptr<Handshake> handshake)
      : socket_(std::move(socket)), handshake_(std::move(handshake)), timer_(io) {}
  ~Entrance() { runtime::CloseSocket(socket_); }

  // Keeps itself until `ended` is called, later and once, or `Close`.
  void Start(absl::Duration timeout, Ended ended) {
    asio::error_code ignored;  // of a dead socket, which the first read will tell
    socket_.non_blocking(true, ignored);
    ended_ = std::move(ended);
    timer_.expires_after(absl::ToChronoNanoseconds(timeout));
    timer_.async_wait([self = shared_from_this(), timeout](const asio::error_code& error) {
      if (error) return;
      self->End(absl::DeadlineExceededError(absl::StrCat(
          "no proof came within ", absl::FormatDuration(timeout), " (proof_timeout)")));
    });
    // What fails here, the first read tells.
    Say(handshake_->Begin());
    Wait();
  }

  void Close() {
    ended_ = nullptr;
    timer_.cancel();
    runtime::CloseSocket(socket_);
  }
  // After an end without an error.
  ProvenConnection Release() { return {std::move(socket_), handshake_->TakeLayer()}; }

 private:
  // Of a new connection, whose buffer has room for the little that is said.
  bool Say(const std::string& bytes) {
    return bytes.empty() || ::send(socket_.native_handle(), bytes.data(), bytes.size(),
                                   MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }

  void Wait() {
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         if (!error && self->ended_ != nullptr) self->Read();
                       });
  }

  // Never more than the handshake wants, since what follows is for others.
  void Read() {
    std::array<char, 4096> room;
    while (!handshake_->done()) {
      const size_t bytes = std::min(room.size(), handshake_->wants());
      const ssize_t count = ::recv(socket_.native_handle(), room.data(), bytes, 0);
      if (count == 0) return End(absl::UnavailableError("it closed the connection"));
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Wait();
      if (count < 0) return End(absl::UnavailableError("the connection broke"));
      const auto said = handshake_->Take({room.data(), static_cast<size_t>(count)});
      if (!said.ok()) return End(said.status());
      if (!Say(*said)) return End(absl::UnavailableError("the connection broke"));
    }
    End(absl::OkStatus());
  }

  void End(const absl::Status& why) {
    timer_.cancel();
    if (Ended ended = std::exchange(ended_, nullptr); ended != nullptr) ended(why);
  }

  tcp::socket socket_;
  const std::unique_ptr<Handshake> handshake_;
  asio::steady_timer timer_;
  Ended ended_;
};

namespace {

link::LinkPlaces::Limits LimitsOf(const Door::Options& options) {
  return {.connections_max = std::numeric_limits<size_t>::max(),
          .connections_per_host_max = 0,
          .reserved = 0,
          .greetings_max = options.unproven_max,
          .first_request_timeout = absl::InfiniteDuration(),
          .hello_timeout = absl::InfiniteDuration()};
}

absl::StatusOr<std::unique_ptr<Handshake>> Calls(const DoorKey& key) {
  if (!key.encrypt) return GiveProof(key.secret);
  const auto end = runtime::Secrets().Call(key.secret);
  if (!end.ok()) return end.status();
  return Encrypt((*end)());
}

absl::Status At(const std::string& address, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(address, ": ", std::string(why.message())));
}

}  // namespace

// --- Listening ---

absl::StatusOr<std::shared_ptr<Door>> Door::Start(asio::io_context& io, Options options,
                                                  Proven proven) {
  std::shared_ptr<Door> door(new Door(io, std::move(options), std::move(proven)));
  const DoorKey& key = door->options_.key;
  if (key.encrypt && !key.secret.empty()) {
    auto encrypts = runtime::Secrets().Accept(key.secret);
    if (!encrypts.ok()) return encrypts.status();
    door->encrypts_ = *std::move(encrypts);
  }
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
  if (listener_ != nullptr) Close();
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
  if (options_.key.secret.empty()) return proven_({std::move(socket), nullptr});
  auto handshake = encrypts_ != nullptr ? Encrypt(encrypts_()) : TakeProof(options_.key.secret);
  if (places_.GreetingsAreFull()) {
    End(*places_.OldestGreeting(),
        absl::ResourceExhaustedError("its place was needed before its proof came (unproven_max)"));
  }
  const link::LinkId id(++last_guest_);
  const auto guest = std::make_shared<Entrance>(io_, std::move(socket), std::move(handshake));
  guests_[id] = guest;
  places_.Add(id, from.address());
  guest->Start(options_.timeout, [weak = weak_from_this(), id, from](const absl::Status& why) {
    const auto self = weak.lock();
    if (self != nullptr) self->End(id, why.ok() ? why : At(runtime::ToString(from), why));
  });
}

void Door::End(link::LinkId id, const absl::Status& why) {
  const auto node = guests_.extract(id);
  if (node.empty()) return;
  places_.Leave(id);
  const std::shared_ptr<Entrance>& guest = node.mapped();
  if (why.ok()) return proven_(guest->Release());
  if (options_.refused != nullptr) {
    options_.refused(absl::StrCat(address(),
                                  ": a connection was closed that did not prove that it comes from "
                                  "a member of the job: ",
                                  std::string(why.message())));
  }
  guest->Close();
}

// --- Dialing ---

void DialDoor(asio::io_context& io, const runtime::Address& address, const DoorKey& key,
              absl::Duration timeout,
              absl::AnyInvocable<void(absl::StatusOr<ProvenConnection>)> done) {
  runtime::Dial(io, address, timeout,
                [&io, key, timeout, text = runtime::ToString(address),
                 done = std::move(done)](absl::StatusOr<tcp::socket> socket) mutable {
                  if (!socket.ok()) return done(socket.status());
                  if (key.secret.empty())
                    return done(ProvenConnection{*std::move(socket), nullptr});
                  auto handshake = Calls(key);
                  if (!handshake.ok()) {
                    runtime::CloseSocket(*socket);
                    return done(At(text, handshake.status()));
                  }
                  const auto entrance =
                      std::make_shared<Entrance>(io, *std::move(socket), *std::move(handshake));
                  // Called by the entrance itself, which is there then.
                  Entrance* const self = entrance.get();
                  entrance->Start(timeout, [self, text, done = std::move(done)](
                                               const absl::Status& why) mutable {
                    if (why.ok()) return done(self->Release());
                    self->Close();
                    done(At(text, why));
                  });
                });
}

}  // namespace lockstep::transport
