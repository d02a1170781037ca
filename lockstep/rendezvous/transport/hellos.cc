#include "lockstep/rendezvous/transport/hellos.h"

#include <utility>

namespace lockstep::transport {

// --- Unix sockets ---

absl::StatusOr<std::shared_ptr<UnixHellos>> UnixHellos::Start(asio::io_context& io,
                                                              const std::string& name, size_t max,
                                                              Take take) {
  std::shared_ptr<UnixHellos> hellos(new UnixHellos(max, std::move(take)));
  auto listener = UnixListener::Start(io, name, [weak = hellos->weak_from_this()](Socket socket) {
    if (const auto self = weak.lock()) self->Accepted(std::move(socket));
  });
  if (!listener.ok()) return listener.status();
  hellos->listener_ = *std::move(listener);
  return hellos;
}

void UnixHellos::Close() {
  take_ = nullptr;
  listener_->Close();
  for (auto& [raw, socket] : silent_) socket->Close();
  silent_.clear();
}

void UnixHellos::Accepted(Socket socket) {
  if (take_ == nullptr) return;
  if (silent_.size() >= max_) {
    silent_.begin()->second->Close();
    silent_.erase(silent_.begin());
  }
  silent_[socket.get()] = socket;
  socket->OnReadable([weak = weak_from_this(), raw = std::weak_ptr(socket)] {
    const auto self = weak.lock();
    const auto silent = raw.lock();
    if (self != nullptr && silent != nullptr) self->Readable(silent);
  });
}

void UnixHellos::Readable(const Socket& socket) {
  auto message = socket->Receive();
  if (message.ok() && !message->has_value()) return;
  silent_.erase(socket.get());
  const absl::Status status = message.ok() ? take_(socket, **std::move(message)) : message.status();
  // Who sends what is wrong is told by the end of the connection, and tries again or gives up.
  if (!status.ok()) socket->Close();
}

// --- Links ---

absl::StatusOr<std::shared_ptr<LinkHellos>> LinkHellos::Start(asio::io_context& io, Options options,
                                                              Take take) {
  std::shared_ptr<LinkHellos> hellos(new LinkHellos(io, std::move(options), std::move(take)));
  auto door = Door::Start(io, hellos->options_.door,
                          [weak = hellos->weak_from_this()](ProvenConnection proven) {
                            if (const auto self = weak.lock()) self->Accepted(std::move(proven));
                          });
  if (!door.ok()) return door.status();
  hellos->door_ = *std::move(door);
  return hellos;
}

void LinkHellos::Close() {
  take_ = nullptr;
  door_->Close();
  for (auto& [raw, arriving] : silent_) {
    if (arriving->connection) arriving->connection->Abandon();
  }
  silent_.clear();
}

void LinkHellos::Accepted(ProvenConnection proven) {
  if (take_ == nullptr) return;
  if (silent_.size() >= options_.max) {
    if (const auto& first = silent_.begin()->second; first->connection) {
      first->connection->Abandon();
    }
    silent_.erase(silent_.begin());
  }
  const auto arriving = std::make_shared<LinkStream::Arriving>();
  silent_[arriving.get()] = arriving;
  // What comes after the hello goes to the stream itself, which may outlive us.
  arriving->connection = link::Connection::Start(
      io_, std::make_shared<link::Channel>(std::move(proven.socket), std::move(proven.layer)),
      LinkStream::Bounds(options_.link),
      {.message =
           [weak = weak_from_this(), arriving](link::Message message) {
             if (const auto stream = arriving->stream.lock()) {
               stream->TakeMessage(arriving->link, std::move(message));
             } else if (const auto self = weak.lock()) {
               self->TakeMessage(arriving, message);
             }
           },
       .closed =
           [weak = weak_from_this(), arriving](const absl::Status& why) {
             arriving->connection = nullptr;
             if (const auto self = weak.lock()) {
               self->silent_.erase(arriving.get());
             }
             if (const auto stream = arriving->stream.lock()) {
               stream->LinkDown(arriving->link, why);
             }
           }});
}

void LinkHellos::TakeMessage(const Arriving& arriving, const link::Message& message) {
  if (silent_.erase(arriving.get()) == 0) return;
  const absl::Status status = take_(*arriving, message);
  if (status.ok() || arriving->connection == nullptr) return;
  std::exchange(arriving->connection, nullptr)->Close(status, "protocol");
}

}  // namespace lockstep::transport
