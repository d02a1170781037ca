#include "lockstep/client/worker_memory.h"

#include <utility>

#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {
namespace {

namespace native = wire::native;

// What this process is; a card needs an address, though nobody calls a reader.
const transport::Card& OwnCard() {
  static const transport::Card* const card = [] {
    auto* made = new transport::Card(transport::MakeCard());
    made->unix_address = "@";
    made->transports = {"shm"};
    return made;
  }();
  return *card;
}

}  // namespace

// A forked child has no part in the socket.
WorkerMemory::Lent::~Lent() {
  if (fd >= 0 && generation == runtime::ForkGeneration()) runtime::CloseGuarded(fd);
}

WorkerMemory::WorkerMemory(asio::io_context& io, const std::string& host_card)
    : io_(io), arena_(transport::PeerArenaOptions{}) {
  if (host_card.empty()) return;
  const auto card = native::Decode<transport::Card>(host_card);
  std::string why_not;
  wish_ = card.ok() && transport::MayShareMemory(OwnCard(), *card, why_not);
}

WorkerMemory::~WorkerMemory() { GiveUp(); }

bool WorkerMemory::TakeWish() { return std::exchange(wish_, false); }

void WorkerMemory::Opened(const absl::StatusOr<std::string>& answer) {
  if (!answer.ok()) return;
  const auto reply = native::Decode<native::ShareMemoryReply>(*answer);
  if (!reply.ok() || reply->memory == 0) return;
  auto socket = transport::UnixSocket::Connect(io_, reply->unix_address);
  if (!socket.ok()) return;
  socket_ = *std::move(socket);
  if (!socket_->Send(*answer, {}).ok()) return GiveUp();
  memory_ = reply->memory;
}

std::vector<uint64_t> WorkerMemory::TakeReleased() {
  const MutexLock lock(lent_->mutex);
  return std::exchange(lent_->released, {});
}

// What has been told is there already when an answer names it: it was sent before.
absl::Status WorkerMemory::TakeNotices() {
  for (;;) {
    auto message = socket_->Receive();
    if (!message.ok()) return message.status();
    if (!message->has_value()) return absl::OkStatus();
    const auto notice = native::Decode<native::SegmentNotice>((*message)->bytes);
    if (!notice.ok()) return notice.status();
    absl::Status status;
    if (notice->removed) {
      status = arena_.RemoveSegment(notice->segment);
    } else if ((*message)->fds.size() != 1) {
      status = absl::InvalidArgumentError("a segment of memory came without its descriptor");
    } else {
      status = arena_.AddSegment(notice->segment, std::move((*message)->fds[0]), notice->bytes);
    }
    if (!status.ok()) return status;
  }
}

absl::StatusOr<rendezvous::MemoryPtr> WorkerMemory::View(const native::ChunkPlace& place) {
  if (socket_ == nullptr) return absl::UnavailableError("the worker's memory is not seen any more");
  if (absl::Status status = TakeNotices(); !status.ok()) {
    GiveUp();
    return status;
  }
  auto view = arena_.View({.segment = place.memory_segment,
                           .offset = place.offset,
                           .bytes = place.bytes,
                           .generation = static_cast<uint32_t>(place.generation)},
                          [lent = lent_, lease = place.lease] {
                            const MutexLock lock(lent->mutex);
                            lent->released.push_back(lease);
                          });
  if (!view.ok()) GiveUp();
  return view;
}

void WorkerMemory::GiveUp() {
  memory_ = 0;
  if (socket_ == nullptr) return;
  {
    const MutexLock lock(lent_->mutex);
    lent_->fd = std::exchange(socket_, nullptr)->Release();
    lent_->generation = runtime::ForkGeneration();
  }
  lent_ = std::make_shared<Lent>();
}

}  // namespace lockstep::client
