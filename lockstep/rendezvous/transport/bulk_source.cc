#include "lockstep/rendezvous/transport/bulk_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/post.hpp"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using rendezvous::ErrorPtr;
using rendezvous::MakeError;
using rendezvous::OpId;
using rendezvous::Reason;
using runtime::MonotonicNow;
using wire::native::FetchChunk;
using wire::native::PeerWelcome;

constexpr auto kLookEvery = std::chrono::milliseconds(500);

}  // namespace

std::shared_ptr<BulkSource> BulkSource::Make(BulkLoop& loop,
                                             std::shared_ptr<const BulkFetchOptions> options,
                                             MemberIndex member, Events events) {
  std::shared_ptr<BulkSource> source(
      new BulkSource(loop, std::move(options), member, std::move(events)));
  source->connection_ = std::make_shared<BulkConnection>(
      loop,
      BulkConnection::Options{.name = source->name_,
                              .dial_timeout = source->options_->dial_timeout,
                              .retry_first = source->options_->retry_first,
                              .retry_last = source->options_->retry_last},
      source->ConnectionEvents());
  return source;
}

BulkSource::BulkSource(BulkLoop& loop, std::shared_ptr<const BulkFetchOptions> options,
                       MemberIndex member, Events events)
    : loop_(loop),
      options_(std::move(options)),
      name_(options_->names[static_cast<size_t>(member.value())]),
      events_(std::move(events)),
      look_(loop.io()) {}

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
                return self ? self->RoomFor() : BulkConnection::Room();
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
  if (running_.empty()) {
    heard_at_ = MonotonicNow();
    LookForStall();
  }
  running_.push_back({.what = fetch});
  if (connection_->up()) return Ask();
  connection_->Open();
}

bool BulkSource::Remove(OpId op) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [op](const Running& each) { return each.what.op == op; });
  if (found == running_.end()) return false;
  Abandon(found);
  // Its place may be another's now.
  if (connection_->up()) Ask();
  return true;
}

void BulkSource::Close() {
  look_.cancel();
  running_.clear();
  connection_->Close();
  Reset();
}

// What is on its way for it comes for nobody.
void BulkSource::Abandon(At running) {
  for (Chunk& chunk : asked_) {
    if (chunk.of == running) chunk.of.reset();
  }
  Forget(running);
}

void BulkSource::Forget(At running) {
  LeavePlace(*running);
  if (next_ == running) ++next_;
  running_.erase(running);
  if (running_.empty()) look_.cancel();
}

void BulkSource::Finish(At running, ErrorPtr error) {
  const OpId op = running->what.op;
  Abandon(running);
  events_.finished(op, std::move(error));
}

void BulkSource::FailAll(absl::StatusCode code, Reason reason, const std::string& why) {
  const ErrorPtr error = MakeError(code, reason, why);
  const std::list<Running> failed = std::exchange(running_, {});
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
  return !running_.empty();
}

// What was asked for on the connection does not come.
void BulkSource::Reset() {
  if (!asked_.empty()) loop_.End();
  asked_.clear();
  in_flight_ = 0;
  header_filled_ = 0;
  body_.reset();
  memory_.reset();
  places_ = 0;
  reading_.clear();
  for (Running& running : running_) {
    running.asked = running.come;
    running.way = Way::kUndecided;
  }
  next_ = running_.begin();
}

void BulkSource::LookForStall() {
  look_.expires_after(kLookEvery);
  look_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->running_.empty()) return;
    const absl::Duration allowed = self->options_->stalled_after;
    if (MonotonicNow() - self->heard_at_ < allowed) return self->LookForStall();
    self->FailAll(
        absl::StatusCode::kUnavailable, Reason::kUnreachable,
        absl::StrCat(
            "no byte of its values came from ", self->name_, " for ", absl::FormatDuration(allowed),
            self->last_failure_.empty() ? "" : absl::StrCat(" (", self->last_failure_, ")")));
  });
}

// --- Asking ---

void BulkSource::Ask() {
  const bool idle = asked_.empty();
  std::string requests;
  size_t full = 0;  // of those that were looked at in a row and have nothing left to ask for
  while (full < running_.size() && in_flight_ < options_->window_bytes) {
    if (next_ == running_.end()) next_ = running_.begin();
    const std::optional<Chunk> chunk = NextChunk(next_++);
    if (!chunk.has_value()) {
      ++full;
      continue;
    }
    full = 0;
    requests += WithLength(wire::native::Encode(FetchChunk{.lease = chunk->lease,
                                                           .offset = chunk->offset,
                                                           .bytes = chunk->bytes,
                                                           .place = chunk->place}));
    asked_.push_back(*chunk);
    if (!chunk->place) in_flight_ += chunk->bytes;
  }
  if (idle && !asked_.empty()) loop_.Begin();
  if (!requests.empty()) connection_->Send(requests);
  runtime::FaultPoint("bulk/asked");
}

std::optional<BulkSource::Chunk> BulkSource::NextChunk(At running) {
  const uint64_t left = running->what.bytes - running->asked;
  if (left == 0) return std::nullopt;
  if (running->way == Way::kUndecided) {
    const bool place = memory_.has_value() && left >= options_->place_bytes_min;
    if (place && places_ >= options_->places_max) return std::nullopt;
    running->way = place ? Way::kPlace : Way::kBytes;
    if (place) ++places_;
  }
  const bool place = running->way == Way::kPlace;
  const Chunk chunk = {.of = running,
                       .lease = running->what.lease.value(),
                       .offset = running->asked,
                       .bytes = place ? left : std::min(options_->chunk_bytes, left),
                       .place = place};
  running->asked += chunk.bytes;
  return chunk;
}

// --- What comes ---

// The rest of the answer that comes, and the header of the next.
BulkConnection::Room BulkSource::RoomFor() {
  BulkConnection::Room room;
  if (body_.has_value()) room.pieces[room.count++] = BodyRoom();
  if (!body_.has_value() || room.pieces[0].iov_len == body_->bytes - body_come_) {
    room.pieces[room.count++] = {header_.data() + header_filled_, header_.size() - header_filled_};
  }
  return room;
}

iovec BulkSource::BodyRoom() {
  const uint64_t left = body_->bytes - body_come_;
  const std::optional<At> of = asked_.front().of;
  if (body_->code == BulkCode::kPlace) return {place_.data() + body_come_, left};
  if (body_->code == BulkCode::kBytes && of.has_value()) {
    return {(*of)->what.to + body_->offset + body_come_, left};
  }
  return {scratch_.data(), std::min<size_t>(left, scratch_.size())};
}

absl::Status BulkSource::Take(size_t count) {
  if (body_.has_value()) {
    const size_t here = std::min(count, BodyRoom().iov_len);
    count -= here;
    if (absl::Status taken = TakeBody(here); !taken.ok()) return taken;
    // The end of a value may have ended everything.
    if (!connection_->up()) return absl::OkStatus();
  }
  header_filled_ += count;
  if (header_filled_ < header_.size() || body_.has_value()) return absl::OkStatus();
  header_filled_ = 0;
  return TakeHeader();
}

absl::Status BulkSource::TakeHeader() {
  const auto header = DecodeBulkHeader(header_);
  if (!header.ok()) return header.status();
  if (asked_.empty()) return absl::InvalidArgumentError("it sent what nobody asked for");
  const Chunk& chunk = asked_.front();
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
  body_ = *header;
  body_come_ = 0;
  return header->bytes == 0 ? EndChunk() : absl::OkStatus();
}

absl::Status BulkSource::TakeBody(size_t count) {
  body_come_ += count;
  const std::optional<At> of = asked_.front().of;
  if (body_->code == BulkCode::kBytes) {
    heard_at_ = MonotonicNow();
    if (of.has_value()) (*of)->come += count;
  }
  return body_come_ == body_->bytes ? EndChunk() : absl::OkStatus();
}

absl::Status BulkSource::EndChunk() {
  const Chunk chunk = asked_.front();
  const BulkCode code = body_->code;
  asked_.pop_front();
  runtime::FaultPoint("bulk/chunk_come");
  if (!chunk.place) in_flight_ -= chunk.bytes;
  body_.reset();
  if (asked_.empty()) loop_.End();
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
  const uint64_t address = DecodeBulkPlace(place_);
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
  if (running.way != Way::kPlace) return;
  running.way = Way::kBytes;
  --places_;
  std::erase_if(reading_, [&running](const At& each) { return &*each == &running; });
  if (!connection_->up()) return;
  connection_->Send(WithLength(
      wire::native::Encode(FetchChunk{.lease = running.what.lease.value(), .done = true})));
}

void BulkSource::FetchBytesOf(At running) {
  LeavePlace(*running);
  running->asked = running->come;
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
  const uint64_t bytes = std::min(options_->chunk_bytes, running->what.bytes - running->come);
  const absl::Status read =
      memory_->Read(running->address + running->come, {running->what.to + running->come, bytes});
  // Whether it is gone for good is not for us to say.
  if (absl::IsNotFound(read)) return connection_->Break(read);
  if (read.ok()) {
    heard_at_ = MonotonicNow();
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
