#include "lockstep/rendezvous/transport/bulk_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using rendezvous::ErrorPtr;
using rendezvous::MakeError;
using rendezvous::OpId;
using rendezvous::Reason;
using wire::native::FetchChunk;
using wire::native::PeerWelcome;

}  // namespace

std::shared_ptr<BulkSource> BulkSource::Make(BulkLoop& loop,
                                             std::shared_ptr<const BulkFetchOptions> options,
                                             MemberIndex member, Events events) {
  LOCKSTEP_DCHECK(static_cast<size_t>(member.value()) < options->names.size());
  std::shared_ptr<BulkSource> source(
      new BulkSource(loop, std::move(options), member, std::move(events)));
  source->connection_ = std::make_shared<BulkConnection>(
      loop,
      BulkConnection::Options{.name = source->name_,
                              .dial_timeout = source->options_->dial_timeout,
                              .retry_first = source->options_->retry_first,
                              .retry_last = source->options_->retry_last,
                              .self = source->options_->card},
      source->ConnectionEvents());
  return source;
}

BulkSource::BulkSource(BulkLoop& loop, std::shared_ptr<const BulkFetchOptions> options,
                       MemberIndex member, Events events)
    : loop_(loop),
      options_(std::move(options)),
      name_(options_->names[static_cast<size_t>(member.value())]),
      events_(std::move(events)),
      stall_watch_(loop.io(), options_->stalled_after),
      schedule_(options_) {}

BulkSource::~BulkSource() { connection_->Close(); }

BulkConnection::Events BulkSource::ConnectionEvents() {
  const std::weak_ptr<BulkSource> weak = weak_from_this();
  return {.find_card = events_.find_card,
          .hello = events_.hello,
          .up =
              [weak](const Card& card, const PeerWelcome& welcome) {
                const auto self = weak.lock();
                if (self == nullptr) return;
                self->Prove(card, welcome);
                self->Ask();
              },
          .room =
              [weak] {
                const auto self = weak.lock();
                return self ? self->answer_.Room(self->Destination()) : BulkConnection::Room();
              },
          .take =
              [weak](size_t count) {
                const auto self = weak.lock();
                return self ? self->Take(count) : absl::OkStatus();
              },
          .broken =
              [weak](const absl::Status& why) {
                const auto self = weak.lock();
                return self != nullptr && self->Broken(why);
              },
          .refused =
              [weak](const absl::Status& why) {
                const auto self = weak.lock();
                if (self == nullptr) return;
                self->FailAll(absl::StatusCode::kInternal, Reason::kProtocol,
                              absl::StrCat(self->name_, ": ", why.message()));
              }};
}

// --- Beginning and end ---

void BulkSource::Add(const BulkFetch& fetch) {
  if (schedule_.empty()) {
    stall_watch_.Start(weak_from_this(), [this] { Stalled(); });
  }
  schedule_.Add(fetch);
  if (connection_->up()) return Ask();
  connection_->Open();
}

bool BulkSource::Remove(OpId op) {
  const auto found = schedule_.Find(op);
  if (!found.has_value()) return false;
  Forget(*found);
  // Its place may be another's now.
  if (connection_->up()) Ask();
  return true;
}

void BulkSource::Close() {
  stall_watch_.Stop();
  static_cast<void>(schedule_.TakeAll());
  connection_->Close();
  Reset();
}

void BulkSource::Forget(At running) {
  LeavePlace(*running);
  schedule_.Forget(running);
  if (schedule_.empty()) stall_watch_.Stop();
}

void BulkSource::Finish(At running, ErrorPtr error) {
  const OpId op = running->what.op;
  Forget(running);
  events_.finished(op, std::move(error));
}

void BulkSource::FailAll(absl::StatusCode code, Reason reason, const std::string& why) {
  const ErrorPtr error = MakeError(code, reason, why);
  stall_watch_.Stop();
  const std::list<Running> failed = schedule_.TakeAll();
  connection_->Close();
  Reset();
  for (const Running& each : failed) events_.finished(each.what.op, error);
}

bool BulkSource::Broken(const absl::Status& why) {
  // Nothing of the other end's; to wait for it would hide it.
  if (absl::IsResourceExhausted(why)) {
    FailAll(why.code(), Reason::kQuotaExceeded, std::string(why.message()));
    return false;
  }
  last_failure_ = std::string(why.message());
  Reset();
  return !schedule_.empty();
}

void BulkSource::Reset() {
  if (schedule_.waits()) loop_.End();
  schedule_.Reset();
  answer_.Reset();
  memory_.reset();
  reading_.clear();
}

void BulkSource::Stalled() {
  FailAll(absl::StatusCode::kUnavailable, Reason::kUnreachable,
          absl::StrCat("no byte of its values came from ", name_, " for ",
                       absl::FormatDuration(stall_watch_.allowed()),
                       last_failure_.empty() ? "" : absl::StrCat(" (", last_failure_, ")")));
}

// --- Asking ---

void BulkSource::Ask() {
  const bool idle = !schedule_.waits();
  std::string requests;
  while (const auto chunk = schedule_.Ask(/*reads=*/memory_.has_value())) {
    requests += WithLength(wire::native::Encode(FetchChunk{.lease = chunk->lease,
                                                           .offset = chunk->offset,
                                                           .bytes = chunk->bytes,
                                                           .place = chunk->place}));
  }
  if (idle && schedule_.waits()) loop_.Begin();
  if (!requests.empty()) connection_->Send(requests);
  runtime::FaultPoint("bulk/asked");
}

// --- What comes ---

std::byte* BulkSource::Destination() const {
  if (!schedule_.waits()) return nullptr;
  const std::optional<At> of = schedule_.front().of;
  return of.has_value() ? (*of)->what.to : nullptr;
}

absl::Status BulkSource::Take(size_t count) {
  if (answer_.in_body()) {
    const size_t here = answer_.TakeBody(count, Destination());
    count -= here;
    if (answer_.header().code == BulkCode::kBytes) {
      stall_watch_.Heard();
      if (const auto of = schedule_.front().of) (*of)->come += here;
    }
    if (answer_.body_left() > 0) return absl::OkStatus();
    if (absl::Status ended = EndChunk(); !ended.ok()) return ended;
    // The end of a value may have ended everything.
    if (!connection_->up()) return absl::OkStatus();
  }
  return answer_.TakeHeader(count) ? TakeHeader() : absl::OkStatus();
}

absl::Status BulkSource::TakeHeader() {
  const auto header = answer_.DecodeHeader();
  if (!header.ok()) return header.status();
  if (!schedule_.waits()) return absl::InvalidArgumentError("it sent what nobody asked for");
  const Chunk& chunk = schedule_.front();
  bool fits = header->lease == chunk.lease && header->offset == chunk.offset;
  switch (header->code) {
    case BulkCode::kBytes:
      fits &= !chunk.place && header->bytes == chunk.bytes;
      break;
    case BulkCode::kPlace:
      fits &= chunk.place && header->bytes == kBulkPlaceBytes;
      break;
    case BulkCode::kNoPlace:
      fits &= chunk.place && header->bytes <= kBulkMessageBytesMax;
      break;
    case BulkCode::kUnknown:
    case BulkCode::kRange:
      fits &= header->bytes <= kBulkMessageBytesMax;
      break;
  }
  if (!fits) return absl::InvalidArgumentError("it answered what was not asked");
  answer_.BeginBody(*header);
  return header->bytes == 0 ? EndChunk() : absl::OkStatus();
}

absl::Status BulkSource::EndChunk() {
  const Chunk chunk = schedule_.TakeFront();
  const BulkCode code = answer_.header().code;
  runtime::FaultPoint("bulk/chunk_come");
  answer_.EndBody();
  if (!schedule_.waits()) loop_.End();
  if (chunk.of.has_value()) {
    if (absl::Status ended = EndChunkOf(*chunk.of, chunk, code); !ended.ok()) return ended;
  }
  if (connection_->up()) Ask();
  return absl::OkStatus();
}

absl::Status BulkSource::EndChunkOf(At running, const Chunk& chunk, BulkCode code) {
  switch (code) {
    case BulkCode::kBytes:
      if (running->come == running->what.bytes) Finish(running, nullptr);
      return absl::OkStatus();
    case BulkCode::kPlace:
      return TakePlace(running, chunk);
    case BulkCode::kNoPlace:
      FetchBytesOf(running);
      return absl::OkStatus();
    case BulkCode::kUnknown:
    case BulkCode::kRange:
      break;
  }
  Finish(running, MakeError(absl::StatusCode::kUnavailable, Reason::kPeerLost,
                            absl::StrCat(name_, " does not keep the value any more")));
  return absl::OkStatus();
}

// --- Reading memory ---

// Each connection proves it anew: the member may be another process by now.
void BulkSource::Prove(const Card& card, const PeerWelcome& welcome) {
  std::string why_not;
  if (MayReadMemory(options_->card, card, why_not)) {
    if (welcome.proof_address == 0 || welcome.proof.data.size() != kMemoryProofBytes) {
      why_not = "the other member does not show its memory";
    } else {
      memory_.emplace(static_cast<pid_t>(card.pid), welcome.proof_address, welcome.proof.data,
                      options_->read_memory);
      const absl::Status proven = memory_->Check();
      if (!proven.ok()) {
        why_not = std::string(proven.message());
        memory_.reset();
      }
    }
  }
  events_.reads_memory(std::move(why_not));
}

absl::Status BulkSource::TakePlace(At running, const Chunk& chunk) {
  const uint64_t address = answer_.place();
  if (address == 0 || address > std::numeric_limits<uint64_t>::max() - chunk.bytes) {
    return absl::InvalidArgumentError("it says that a value lies where nothing can");
  }
  if (!memory_.has_value()) {
    FetchBytesOf(running);
    return absl::OkStatus();
  }
  running->address = address - chunk.offset;
  reading_.push_back(running);
  ReadSoon();
  return absl::OkStatus();
}

// So that the sender need not keep it longer than its lease says.
void BulkSource::LeavePlace(Running& running) {
  if (!schedule_.LeavePlace(running)) return;
  std::erase_if(reading_, [&running](const At& each) { return &*each == &running; });
  if (!connection_->up()) return;
  connection_->Send(WithLength(
      wire::native::Encode(FetchChunk{.lease = running.what.lease.value(), .done = true})));
}

void BulkSource::FetchBytesOf(At running) {
  LeavePlace(*running);
  schedule_.AskAgain(*running);
}

void BulkSource::ReadSoon() {
  if (reading_.empty() || std::exchange(read_is_posted_, true)) return;
  asio::post(loop_.io(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ReadOne();
  });
}

// A chunk, then it is the turn of others.
void BulkSource::ReadOne() {
  read_is_posted_ = false;
  if (reading_.empty()) return;
  const At running = reading_.front();
  reading_.pop_front();
  // What is to be read leaves `reading_` with the memory, and when it has come.
  LOCKSTEP_DCHECK(memory_.has_value() && running->come < running->what.bytes);
  const uint64_t bytes = std::min(options_->chunk_bytes, running->what.bytes - running->come);
  const absl::Status read =
      memory_->Read(running->address + running->come, {running->what.to + running->come, bytes});
  // Whether it is gone for good is not for us to say.
  if (absl::IsNotFound(read)) return connection_->Break(read);
  if (read.ok()) {
    stall_watch_.Heard();
    running->come += bytes;
    if (running->come < running->what.bytes) {
      reading_.push_back(running);
    } else {
      Finish(running, nullptr);
    }
  } else {
    CannotRead(running, read);
  }
  if (connection_->up()) Ask();
  ReadSoon();
}

// It goes on through the socket; so do all others, unless this value's memory is a special one.
void BulkSource::CannotRead(At running, const absl::Status& why) {
  FetchBytesOf(running);
  if (absl::IsInvalidArgument(why)) return;
  memory_.reset();
  for (const At each : std::exchange(reading_, {})) FetchBytesOf(each);
  events_.reads_memory(std::string(why.message()));
}

}  // namespace lockstep::transport
