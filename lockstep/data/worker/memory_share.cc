#include "lockstep/data/worker/memory_share.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/rendezvous/transport/pass_descriptors.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::data {
namespace {

namespace native = wire::native;

constexpr size_t kSharesMax = 1024;
constexpr size_t kStrangersMax = 64;
constexpr size_t kLeasesMax = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryShare>> MemoryShare::Start(runtime::Loop& loop,
                                                                transport::Arena& arena) {
  std::unique_ptr<MemoryShare> share(new MemoryShare(loop, arena));
  const std::string name =
      absl::StrFormat("lockstep-data-%d-%016x", ::getpid(), runtime::RandomNumber() | 1);
  auto listener = transport::UnixListener::Start(
      loop.io(), name, [share = share.get()](std::shared_ptr<transport::UnixSocket> socket) {
        share->Accepted(socket);
      });
  if (!listener.ok()) return listener.status();
  share->listener_ = *std::move(listener);
  share->unix_address_ = "@" + name;
  return share;
}

MemoryShare::~MemoryShare() {
  if (listener_ != nullptr) listener_->Close();
  for (const auto& socket : strangers_) socket->Close();
  for (auto& [memory, share] : shares_) {
    if (share.socket != nullptr) share.socket->Close();
  }
}

native::ShareMemoryReply MemoryShare::Open() {
  // Those that never came make room.
  if (shares_.size() >= kSharesMax) {
    std::erase_if(shares_, [](const auto& entry) { return entry.second.socket == nullptr; });
  }
  if (shares_.size() >= kSharesMax) return {};
  const uint64_t memory = runtime::RandomNumber() | 1;
  const uint64_t secret[] = {runtime::RandomNumber() | 1, runtime::RandomNumber() | 1};
  Share& share = shares_[memory];
  share.token.assign(reinterpret_cast<const char*>(secret), sizeof(secret));
  return {.memory = memory, .unix_address = unix_address_, .token = {share.token}};
}

void MemoryShare::Accepted(const std::shared_ptr<transport::UnixSocket>& socket) {
  // Anybody of this host can find the name of the socket (/proc/net/unix), and would push consumers
  // out before they have said who they are.
  const auto peer = transport::PeerCredentials(socket->fd());
  if (!peer.ok() || !runtime::AllowedPeers().Allow(peer->uid)) return socket->Close();
  if (strangers_.size() >= kStrangersMax) {
    (*strangers_.begin())->Close();
    strangers_.erase(strangers_.begin());
  }
  LOCKSTEP_DCHECK(strangers_.size() < kStrangersMax);
  strangers_.insert(socket);
  socket->OnReadable([this, weak = std::weak_ptr(socket)] {
    if (const auto self = weak.lock()) Readable(self);
  });
}

// The first message says whose it is; there is no other, and the end is the kernel's word.
void MemoryShare::Readable(const std::shared_ptr<transport::UnixSocket>& socket) {
  for (;;) {
    auto message = socket->Receive();
    if (message.ok() && !message->has_value()) return;
    if (message.ok() && strangers_.erase(socket) > 0) {
      const auto hello = native::Decode<native::ShareMemoryReply>((*message)->bytes);
      const auto found = hello.ok() ? shares_.find(hello->memory) : shares_.end();
      if (found != shares_.end() && found->second.socket == nullptr &&
          found->second.token == hello->token.data) {
        found->second.socket = socket;
        continue;
      }
    }
    strangers_.erase(socket);
    std::erase_if(shares_, [&](const auto& entry) { return entry.second.socket == socket; });
    return socket->Close();
  }
}

bool MemoryShare::Tell(Share& share, uint32_t segment) {
  LOCKSTEP_DCHECK(share.socket != nullptr);
  if (share.told.contains(segment)) return true;
  const auto fd = arena_.DescriptorOf(segment);
  if (!fd.ok()) return false;
  uint64_t bytes = 0;
  for (const transport::SegmentSize& each : arena_.segments()) {
    if (each.id == segment) bytes = each.bytes;
  }
  LOCKSTEP_DCHECK(bytes > 0);  // a chunk lies in it, so it is there
  const int passed[] = {fd->get()};
  const native::SegmentNotice notice = {.segment = segment, .bytes = bytes};
  if (!share.socket->Send(native::Encode(notice), passed).ok()) return false;
  share.told.insert(segment);
  return true;
}

void MemoryShare::TellRemoved(Share& share) {
  LOCKSTEP_DCHECK(share.socket != nullptr);
  std::set<uint32_t> there;
  for (const transport::SegmentSize& each : arena_.segments()) there.insert(each.id);
  std::erase_if(share.told, [&](uint32_t segment) {
    if (there.contains(segment)) return false;
    const native::SegmentNotice notice = {.segment = segment, .removed = true};
    return share.socket->Send(native::Encode(notice), {}).ok();
  });
}

std::optional<native::ChunkPlace> MemoryShare::Lend(uint64_t memory, const StoredChunkPtr& chunk) {
  if (memory == 0 || chunk->block == nullptr) return std::nullopt;
  const auto found = shares_.find(memory);
  if (found == shares_.end() || found->second.socket == nullptr) return std::nullopt;
  Share& share = found->second;
  if (share.leases.size() >= kLeasesMax) return std::nullopt;
  if (const uint64_t removed = arena_.segments_removed(); removed != removed_seen_) {
    removed_seen_ = removed;
    for (auto& [id, each] : shares_) {
      if (each.socket != nullptr) TellRemoved(each);
    }
  }
  const transport::Place& place = chunk->block->place();
  if (!Tell(share, place.segment)) return std::nullopt;
  const uint64_t lease = ++last_lease_;
  share.leases.emplace(lease, chunk);
  return native::ChunkPlace{.memory_segment = place.segment,
                            .offset = place.offset,
                            .bytes = chunk->chunk.size(),
                            .generation = place.generation,
                            .lease = lease};
}

void MemoryShare::Release(uint64_t memory, std::span<const uint64_t> leases) {
  const auto found = shares_.find(memory);
  if (found == shares_.end()) return;
  for (const uint64_t lease : leases) found->second.leases.erase(lease);
}

size_t MemoryShare::leases() const {
  size_t leases = 0;
  for (const auto& [memory, share] : shares_) leases += share.leases.size();
  return leases;
}

}  // namespace lockstep::data
