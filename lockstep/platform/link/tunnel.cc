#include "lockstep/platform/link/tunnel.h"

#include <algorithm>
#include <array>
#include <utility>

#include "asio/buffer.hpp"
#include "asio/write.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::link {
namespace {

constexpr size_t kReadBytes = size_t{16} << 10;
static_assert(kReadBytes <= kFramePayloadMax);  // one frame, so that the order stays
static_assert(kReadBytes <= TunnelFlow::kWindow);

// The object, its socket and what its owner has for it.
constexpr size_t kTunnelBytes = size_t{1} << 10;

// `kind` of an end.
constexpr uint32_t kInOrder = 0;
constexpr uint32_t kBroken = 1;

}  // namespace

std::shared_ptr<Tunnel> Tunnel::Start(asio::ip::tcp::socket socket, uint64_t id, Events events,
                                      runtime::MemoryAccount* memory) {
  std::shared_ptr<Tunnel> tunnel(new Tunnel(std::move(socket), id, std::move(events), memory));
  tunnel->AwaitBytes();
  return tunnel;
}

Tunnel::Tunnel(asio::ip::tcp::socket socket, uint64_t id, Events events,
               runtime::MemoryAccount* memory)
    : socket_(std::move(socket)),
      id_(id),
      events_(std::move(events)),
      share_(memory, "tunnels", "tunnels") {
  Count();
  asio::error_code ignored;  // of a socket that is dead already, which the first read will tell
  socket_.non_blocking(true, ignored);
}

Tunnel::~Tunnel() { runtime::CloseSocket(socket_); }

absl::Status Tunnel::Take(Message frame) {
  if (!socket_.is_open())
    return absl::OkStatus();             // it broke, which the other end is about to hear
  const auto self = shared_from_this();  // the owner may let go in `over`
  switch (frame.type) {
    case FrameType::kTunnelData: {
      if (absl::Status came = flow_.Came(frame.payload.size()); !came.ok()) return came;
      if (frame.payload.empty())
        return absl::InvalidArgumentError("a tunnel's frame without bytes");
      Keep(std::move(frame.payload));
      Count();
      return absl::OkStatus();
    }
    case FrameType::kTunnelCredit: {
      if (absl::Status credited = flow_.Credited(frame.kind); !credited.ok()) return credited;
      AwaitBytes();
      return absl::OkStatus();
    }
    case FrameType::kTunnelEnd: {
      // One that has ended in order may still break: nobody takes what we send.
      if (frame.kind != kInOrder) {
        runtime::ResetSocket(socket_);
      } else if (absl::Status ended = flow_.EndInward(); !ended.ok()) {
        return ended;
      }
      EndIfOver();
      return absl::OkStatus();
    }
    default:
      LOCKSTEP_CHECK(false);  // the caller asks IsOfTunnel
  }
  return absl::OkStatus();
}

void Tunnel::Abandon() {
  Detach();
  runtime::ResetSocket(socket_);
}

void Tunnel::AwaitBytes() {
  if (reading_ || flow_.MaySend() == 0) return;
  reading_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       self->reading_ = false;
                       if (!error) self->ReadSome();
                     });
}

void Tunnel::ReadSome() {
  if (!socket_.is_open()) return;
  std::array<char, kReadBytes> bytes;  // not kept: most connections are idle
  asio::error_code error;
  const size_t read =
      socket_.read_some(asio::buffer(bytes.data(), std::min(bytes.size(), flow_.MaySend())), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return AwaitBytes();
  if (error == asio::error::eof) {
    flow_.EndOutward();
    Send(FrameType::kTunnelEnd, kInOrder);
    return EndIfOver();
  }
  if (error) return Break();
  flow_.Sent(read);
  Send(FrameType::kTunnelData, 0, std::string(bytes.data(), read));
  AwaitBytes();
}

// In few pieces, however small the frames are: a piece costs more than it is counted. The first one
// is being written, and stays as it is.
void Tunnel::Keep(std::string bytes) {
  if (unwritten_.size() > 1 && unwritten_.back().size() + bytes.size() <= kReadBytes) {
    unwritten_.back().append(bytes);
    return;
  }
  unwritten_.push_back(std::move(bytes));
  if (unwritten_.size() == 1) WriteNext();
}

void Tunnel::WriteNext() {
  LOCKSTEP_DCHECK(!unwritten_.empty());
  asio::async_write(socket_, asio::buffer(unwritten_.front()),
                    [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                      if (!self->socket_.is_open()) return;
                      if (error) return self->Break();
                      self->Written(bytes);
                    });
}

void Tunnel::Written(size_t bytes) {
  unwritten_.pop_front();
  const size_t credit = flow_.Taken(bytes);
  Count();
  if (credit > 0) Send(FrameType::kTunnelCredit, static_cast<uint32_t>(credit));
  if (!unwritten_.empty()) return WriteNext();
  EndIfOver();
}

void Tunnel::Send(FrameType type, uint32_t kind, std::string payload) {
  if (events_.send == nullptr) return;
  events_.send({.type = type,
                .must_understand = true,
                .kind = kind,
                .id = id_,
                .payload = std::move(payload)});
}

void Tunnel::Break() {
  Send(FrameType::kTunnelEnd, kBroken);
  runtime::ResetSocket(socket_);
  if (const auto over = std::exchange(events_, {}).over) over();
}

void Tunnel::Count() { share_.Set(kTunnelBytes + flow_.waiting()); }

void Tunnel::EndIfOver() {
  if (socket_.is_open() && flow_.inward_done()) {
    asio::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  if (socket_.is_open() && !flow_.over()) return;
  runtime::CloseSocket(socket_);
  if (const auto over = std::exchange(events_, {}).over) over();
}

}  // namespace lockstep::link
