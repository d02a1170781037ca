#include "lockstep/rendezvous/transport/shared_stream.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {
namespace {

using wire::native::SegmentNotice;

constexpr uint64_t kRingBytes = RingBytes(kRingCapacity);

std::span<std::byte> RingOf(MemorySegment& rings, bool first) {
  return {rings.mutable_data() + (first ? 0 : kRingBytes), kRingBytes};
}

absl::Status ClosedByTheOther() {
  return absl::UnavailableError("it closed its rendezvous, or ended");
}

}  // namespace

// The socket of a stream that was closed. Threads: set once, before the stream lets go of it.
class SharedStream::Line {
 public:
  ~Line() {
    if (open()) runtime::CloseGuarded(fd_);
  }
  void Set(int fd) {
    fd_ = fd;
    generation_ = runtime::ForkGeneration();
  }
  void EndOurSide() const {
    if (open()) ::shutdown(fd_, SHUT_WR);
  }
  bool TheirSideEnded() const {
    if (!open()) return true;
    pollfd ended = {.fd = fd_, .events = POLLRDHUP};
    return ::poll(&ended, 1, 0) != 0;
  }

 private:
  // Not in a forked child, where it was closed.
  bool open() const { return fd_ >= 0 && generation_ == runtime::ForkGeneration(); }

  int fd_ = -1;
  uint64_t generation_ = 0;
};

// Held by whatever may look at the other end's memory.
class SharedStream::Looking {
 public:
  explicit Looking(std::shared_ptr<Line> line) : line_(std::move(line)) {}
  ~Looking() { line_->EndOurSide(); }
  const std::shared_ptr<Line>& line() const { return line_; }

 private:
  const std::shared_ptr<Line> line_;
};

absl::StatusOr<std::unique_ptr<MemorySegment>> SharedStream::MakeRings() {
  auto rings = MemorySegment::CreateShared(2 * kRingBytes);
  if (!rings.ok()) return rings.status();
  if (absl::Status status = (*rings)->Populate(0, 2 * kRingBytes); !status.ok()) return status;
  MakeRing(RingOf(**rings, true));
  MakeRing(RingOf(**rings, false));
  return rings;
}

absl::StatusOr<std::unique_ptr<MemorySegment>> SharedStream::MapRings(runtime::UniqueFd fd) {
  return MemorySegment::Map(std::move(fd), 2 * kRingBytes, MemorySegment::Access::kReadWrite);
}

absl::StatusOr<std::unique_ptr<SharedStream>> SharedStream::Start(Parts parts, bool first,
                                                                  Mutex& mutex, Events events) {
  auto writer = RingWriter::Open(RingOf(*parts.rings, first));
  if (!writer.ok()) return writer.status();
  auto reader = RingReader::Open(RingOf(*parts.rings, !first));
  if (!reader.ok()) return reader.status();
  std::unique_ptr<SharedStream> stream(
      new SharedStream(std::move(parts), *writer, *reader, mutex, std::move(events)));
  SharedStream* self = stream.get();
  self->parts_.socket->OnReadable([self] { self->SocketReadable(); });
  return stream;
}

SharedStream::SharedStream(Parts parts, RingWriter writer, RingReader reader, Mutex& mutex,
                           Events events)
    : parts_(std::move(parts)),
      mutex_(mutex),
      reader_(reader),
      writer_(writer),
      events_(std::move(events)),
      looking_(std::make_shared<Looking>(std::make_shared<Line>())) {}

SharedStream::~SharedStream() { parts_.socket->Close(); }

// --- Sending ---

void SharedStream::Send(std::string message) {
  // An empty one means that this end closes.
  LOCKSTEP_DCHECK(!message.empty());
  if (!broken_.ok() || closed_) return;
  if (pending_.empty() && Write(message)) return RingBell();
  pending_.push_back(std::move(message));
  has_pending_ = true;
  if (!writer_.WaitForRoom(pending_.front().size())) WritePending();
}

bool SharedStream::Write(std::string_view message) {
  const auto written = writer_.TryWrite(message);
  if (written.ok()) return *written;
  Break(written.status());
  return true;
}

void SharedStream::WritePending() {
  bool any = false;
  while (!pending_.empty()) {
    if (!Write(pending_.front())) {
      if (writer_.WaitForRoom(pending_.front().size())) break;
      continue;
    }
    pending_.pop_front();
    any = true;
  }
  has_pending_ = !pending_.empty();
  if (any) RingBell();
}

void SharedStream::RingBell() {
  if (!writer_.ReaderWantsWaking()) return;
  // Full means that it is rung already.
  ::eventfd_write(parts_.bell.get(), 1);
}

void SharedStream::Close() {
  if (std::exchange(closed_, true)) return;
  events_ = {};
  static_cast<void>(TakeNotices());
  if (broken_.ok() && pending_.empty() && Write("") && broken_.ok()) {
    RingBell();
  } else {
    // Behind what waits for room, which has no reader soon, it would not be seen. Our side of the
    // socket must not end for that: somebody here may look at the other's memory.
    static_cast<void>(
        parts_.socket->Send(wire::native::Encode(SegmentNotice{.closes = true}), {}).ok());
  }
  looking_->line()->Set(parts_.socket->Release());
}

std::function<bool()> SharedStream::DoneWithOurs() const {
  return [line = looking_->line()] { return line->TheirSideEnded(); };
}

// --- The other end's ---

bool SharedStream::Poll() {
  bool any = false;
  if (reader_.HasSomething()) any = ReadAll();
  if (has_pending_) {
    const MutexLock lock(mutex_);
    WritePending();
  }
  return any;
}

bool SharedStream::ReadAll() {
  const MutexLock lock(mutex_);
  if (closed_ || !broken_.ok()) return false;
  std::string message;
  bool any = false;
  while (!closed_ && broken_.ok()) {
    const auto read = reader_.TryRead(message);
    if (!read.ok()) {
      Break(read.status());
      break;
    }
    if (!*read) break;
    any = true;
    if (message.empty()) {
      Break(ClosedByTheOther());
      break;
    }
    events_.message(message);
  }
  if (reader_.WriterWantsWaking()) ::eventfd_write(parts_.bell.get(), 1);
  ReportLost();
  return any;
}

bool SharedStream::PrepareToSleep() { return reader_.PrepareToSleep(); }
void SharedStream::Awake() { reader_.Awake(); }

void SharedStream::SocketReadable() {
  absl::Status status;
  {
    const MutexLock lock(mutex_);
    status = TakeNotices();
  }
  if (status.ok()) return;
  parts_.socket->OnReadable(nullptr);
  ReadAll();  // what was written before the end counts
  const MutexLock lock(mutex_);
  if (closed_) return;
  Break(std::move(status));
  ReportLost();
}

absl::Status SharedStream::TakeNotices() {
  while (true) {
    auto message = parts_.socket->Receive();
    if (message.ok() && !message->has_value()) return absl::OkStatus();
    absl::Status status = message.ok() ? TakeNotice(**std::move(message)) : message.status();
    // For want of descriptors or room here: what lies there is fetched.
    if (absl::IsResourceExhausted(status)) {
      memory_.SetUnseen(std::move(status));
    } else if (!status.ok()) {
      return status;
    }
  }
}

absl::Status SharedStream::TakeNotice(UnixSocket::Message message) {
  const auto notice = wire::native::Decode<SegmentNotice>(message.bytes);
  if (!notice.ok()) return notice.status();
  if (notice->closes) return ClosedByTheOther();
  return memory_.Take(*notice, std::move(message.fds));
}

void SharedStream::Break(absl::Status why) {
  if (!broken_.ok()) return;
  broken_ = std::move(why);
  pending_.clear();
  has_pending_ = false;
}

void SharedStream::ReportLost() {
  if (broken_.ok() || closed_) return;
  const auto events = std::exchange(events_, {});
  if (!events.lost) return;
  // A ring or a notice that cannot be right is the other end's doing.
  const bool lies = absl::IsInvalidArgument(broken_) || absl::IsDataLoss(broken_);
  events.lost(
      rendezvous::MakeError(lies ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable,
                            lies ? rendezvous::Reason::kProtocol : rendezvous::Reason::kPeerLost,
                            std::string(broken_.message())));
}

// --- Memory ---

absl::Status SharedStream::Share(const Arena& arena, uint32_t segment) {
  if (shared_.contains(segment)) return absl::OkStatus();
  const auto fd = arena.DescriptorOf(segment);
  if (!fd.ok()) return fd.status();
  uint64_t bytes = 0;
  for (const SegmentSize& each : arena.segments()) {
    if (each.id == segment) bytes = each.bytes;
  }
  LOCKSTEP_DCHECK(bytes > 0);  // the segment has a descriptor, so it is there
  const int passed[] = {fd->get()};
  const SegmentNotice notice = {.segment = segment, .bytes = bytes};
  if (absl::Status sent = parts_.socket->Send(wire::native::Encode(notice), passed); !sent.ok()) {
    return sent;
  }
  runtime::FaultPoint("memory/segment_told");
  shared_.insert(segment);
  return absl::OkStatus();
}

void SharedStream::Unshare(const Arena& arena) {
  if (closed_) return;
  std::set<uint32_t> there;
  for (const SegmentSize& each : arena.segments()) there.insert(each.id);
  std::erase_if(shared_, [&](uint32_t segment) {
    if (there.contains(segment)) return false;
    const SegmentNotice notice = {.segment = segment, .removed = true};
    // When there is no room for it, the next time.
    return parts_.socket->Send(wire::native::Encode(notice), {}).ok();
  });
}

absl::Status SharedStream::CanSee(uint32_t segment) {
  if (absl::Status status = TakeNotices(); !status.ok()) Break(std::move(status));
  return memory_.CanSee(segment);
}

absl::StatusOr<rendezvous::MemoryPtr> SharedStream::View(const Place& place,
                                                         PeerArena::OnGone on_gone) {
  // The notice of its segment was sent before, but may lie in the socket still.
  if (!closed_) {
    if (absl::Status status = TakeNotices(); !status.ok()) Break(std::move(status));
  }
  return memory_.View(place, [looking = looking_, on_gone = std::move(on_gone)]() mutable {
    if (on_gone) std::move(on_gone)();
  });
}

}  // namespace lockstep::transport
