#include "lockstep/client/rendezvous_bulk.h"

#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::client {
namespace {

using rendezvous::ErrorPtr;
using rendezvous::OpId;
using wire::native::LinkPurpose;
using wire::native::PeerHello;

// For what the arena has no room for.
class OwnMemory final : public rendezvous::Memory {
 public:
  OwnMemory(std::unique_ptr<std::byte[]> data, uint64_t bytes)
      : Memory(data.get(), bytes), data_(std::move(data)) {}
  std::byte* mutable_data() const { return data_.get(); }

 private:
  const std::unique_ptr<std::byte[]> data_;
};

struct Made {
  rendezvous::MemoryPtr memory;  // null: there is none
  std::byte* data = nullptr;
};

Made MakeMemory(transport::Arena& arena, uint64_t bytes) {
  if (auto block = arena.Allocate(bytes); block.ok()) return {*block, (*block)->mutable_data()};
  std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[bytes]);
  if (data == nullptr) return {};
  const auto memory = std::make_shared<OwnMemory>(std::move(data), bytes);
  return {memory, memory->mutable_data()};
}

absl::StatusOr<transport::BulkServer::Guest> Greet(std::string_view bytes,
                                                   const transport::Card& card,
                                                   const transport::Connector::Options& options) {
  const auto hello = wire::native::Decode<PeerHello>(bytes);
  if (!hello.ok()) return hello.status();
  if (absl::Status status = transport::CheckHello(*hello, card, options); !status.ok()) {
    return status;
  }
  if (hello->purpose != LinkPurpose::kBulk) {
    return absl::InvalidArgumentError("this address is for bytes of values");
  }
  return transport::BulkServer::Guest{
      .member = MemberIndex(hello->from),
      .may_read_memory =
          transport::Offers(hello->transports, "cma") && transport::Offers(card.transports, "cma")};
}

}  // namespace

absl::StatusOr<std::string> RendezvousBulk::Listen(asio::io_context& io,
                                                   transport::Door::Options door) {
  if (absl::Status made = MakeProcessBulkLoop(); !made.ok()) return made;
  auto opened = transport::Door::Start(
      io, std::move(door), [weak = weak_from_this()](transport::ProvenConnection proven) {
        if (const auto self = weak.lock()) return self->Accepted(std::move(proven));
        runtime::CloseSocket(proven.socket);
      });
  if (!opened.ok()) return opened.status();
  door_ = *std::move(opened);
  return door_->address();
}

void RendezvousBulk::Begin(const transport::Card& card,
                           const transport::Connector::Options& options) {
  card_ = card;
  options_ = options;
}

void RendezvousBulk::Post(absl::AnyInvocable<void()> function) {
  used_ = true;
  ProcessBulkLoop().Post(std::move(function));
}

void RendezvousBulk::Accepted(transport::ProvenConnection proven) {
  asio::error_code error;
  const int fd = proven.socket.release(error);
  if (error) return;
  Post([self = shared_from_this(), fd, layer = std::move(proven.layer)]() mutable {
    self->MakeEnds();
    self->server_->Accept(fd, std::move(layer));
  });
}

void RendezvousBulk::MakeEnds() {
  if (fetcher_ != nullptr) return;
  const std::weak_ptr<RendezvousBulk> weak = weak_from_this();
  fetcher_ = std::make_shared<transport::BulkFetcher>(
      ProcessBulkLoop(), transport::BulkFetcher::Options{.names = options_.names, .card = card_},
      transport::BulkFetcher::Events{.find_card = events_.find_card,
                                     .hello =
                                         [card = card_, options = options_](
                                             MemberIndex member, const transport::Card& theirs) {
                                           return wire::native::Encode(transport::HelloFor(
                                               member, theirs, LinkPurpose::kBulk, card, options));
                                         },
                                     .done =
                                         [weak](OpId op, ErrorPtr error) {
                                           if (const auto self = weak.lock())
                                             self->Done(op, std::move(error));
                                         },
                                     .reads_memory = events_.reads_memory});
  server_ = std::make_shared<transport::BulkServer>(
      ProcessBulkLoop(),
      transport::BulkServer::Options{
          .greet = [card = card_, options = options_](
                       std::string_view bytes) { return Greet(bytes, card, options); },
          .lent = events_.lent});
  if (!closed_) return;
  fetcher_->Close();
  server_->Close();
}

void RendezvousBulk::Fetch(const rendezvous::Fetch& fetch, std::byte* into) {
  Post([self = shared_from_this(), fetch, into] { self->Start(fetch, into); });
}

void RendezvousBulk::Start(const rendezvous::Fetch& fetch, std::byte* into) {
  MakeEnds();
  if (into == nullptr) {
    Made made = MakeMemory(arena_, fetch.value.bytes);
    if (made.memory == nullptr) {
      return events_.done(
          fetch.op, nullptr,
          rendezvous::MakeError(absl::StatusCode::kResourceExhausted,
                                rendezvous::Reason::kQuotaExceeded,
                                absl::StrCat("no memory for a value of ", fetch.value.bytes,
                                             " bytes (arena_bytes_max)")));
    }
    into = made.data;
    LOCKSTEP_DCHECK(!made_.contains(fetch.op));
    made_[fetch.op] = std::move(made.memory);
  }
  fetcher_->Start({.op = fetch.op,
                   .from = fetch.from,
                   .lease = fetch.lease,
                   .to = into,
                   .bytes = fetch.value.bytes});
}

void RendezvousBulk::Done(OpId op, ErrorPtr error) {
  auto node = made_.extract(op);
  events_.done(op, node.empty() ? nullptr : std::move(node.mapped()), std::move(error));
}

void RendezvousBulk::Stop(OpId op) {
  Post([self = shared_from_this(), op] {
    if (self->fetcher_) self->fetcher_->Stop(op);
  });
}

void RendezvousBulk::Forget(MemberIndex member) {
  if (!used_) return;
  Post([self = shared_from_this(), member] {
    if (self->fetcher_) self->fetcher_->Forget(member);
  });
}

void RendezvousBulk::StopListening() {
  if (door_) door_->Close();
}

bool RendezvousBulk::InLoop() const { return used_ && ProcessBulkLoop().InLoop(); }

void RendezvousBulk::Close() {
  // So that a process without long values gets no thread for them.
  if (!used_) return;
  struct {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
  } run;
  const auto close = [&] {
    closed_ = true;
    if (fetcher_) fetcher_->Close();
    if (server_) server_->Close();
    // Under the mutex, since `run` goes when it is done.
    const MutexLock lock(run.mutex);
    run.done = true;
    run.changed.NotifyAll();
  };
  // Where the memory of a value is given back, its owner may close everything.
  if (InLoop()) return close();
  Post(close);
  const MutexLock lock(run.mutex);
  while (!run.done) run.changed.Wait(run.mutex);
}

}  // namespace lockstep::client
