#include "lockstep/rendezvous/transport/bulk_server.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "asio/posix/stream_descriptor.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/bulk_socket.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/rendezvous/transport/link_stream.h"
#include "lockstep/rendezvous/transport/process_memory.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using asio::posix::stream_descriptor;
using rendezvous::LeaseId;
using wire::native::FetchChunk;
using wire::native::PeerWelcome;

constexpr size_t kReadBytes = 4096;
// At a time, so that those who wait meanwhile get their turn.
constexpr int kWritesPerTurn = 8;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

class BulkServer::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(BulkServer& server, int fd, std::unique_ptr<runtime::SecureLayer> layer)
      : loop_(server.loop_),
        options_(server.options_),
        socket_(server.loop_.io(), fd),
        bytes_(fd, std::move(layer)),
        hello_timer_(server.loop_.io(), absl::ToChronoNanoseconds(options_.hello_timeout)) {}
  ~Session() { Close(); }

  void Start() {
    hello_timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      const auto self = weak.lock();
      if (!error && self && !self->from_.has_value()) self->Close();
    });
    WaitToRead();
  }

  void Close() {
    if (!socket_.is_open()) return;
    // Before what was shown can change.
    if (proof_) proof_->Erase();
    const auto shown = std::exchange(shown_, {});
    hello_timer_.cancel();
    socket_.cancel();
    runtime::CloseGuarded(socket_.release());
    if (!answers_.empty()) loop_.End();
    answers_.clear();
  }
  bool open() const { return socket_.is_open(); }

 private:
  // Some bytes of ours, then some of a value.
  struct Answer {
    std::string head;
    rendezvous::MemoryPtr memory;  // keeps `body`
    std::string_view body;
    size_t sent = 0;
    size_t size() const { return head.size() + body.size(); }
  };

  void WaitToRead() {
    if (reading_ || !open() || answers_.size() >= options_.answers_max) return;
    reading_ = true;
    const auto ready = [self = shared_from_this()](const asio::error_code& error) {
      self->reading_ = false;
      if (!error && self->open()) self->Read();
    };
    if (bytes_.reads_on()) return asio::post(loop_.io(), [ready] { ready(asio::error_code()); });
    socket_.async_wait(stream_descriptor::wait_read, ready);
  }

  void Read() {
    std::array<char, kReadBytes> bytes;
    const iovec room = {bytes.data(), bytes.size()};
    const ssize_t count = bytes_.Read({&room, 1});
    if (count == 0 || (count < 0 && !WouldBlock())) return Close();
    if (count > 0) in_.append(bytes.data(), static_cast<size_t>(count));
    Serve();
  }

  void Serve() {
    TakeRequests();
    for (int i = 0; i < kWritesPerTurn && !answers_.empty() && WriteSome(); ++i) TakeRequests();
    if (!open()) return;
    WaitToWrite();
    WaitToRead();
  }

  void TakeRequests() {
    while (open() && answers_.size() < options_.answers_max) {
      auto message = transport::TakeMessage(in_);
      if (!message.ok()) return Close();
      if (!message->has_value()) return;
      from_.has_value() ? TakeRequest(**message) : TakeHello(**message);
    }
  }

  void TakeHello(const std::string& hello) {
    const auto guest = options_.greet(hello);
    if (!guest.ok()) return Close();
    from_ = guest->member;
    runtime::FaultPoint("bulk/greeted");
    PeerWelcome welcome = {.version = kPeerVersion};
    if (guest->may_read_memory) {
      proof_.emplace();
      welcome.proof_address = proof_->address();
      welcome.proof = {proof_->bytes()};
    }
    Push({.head = WithLength(wire::native::Encode(welcome))});
  }

  void TakeRequest(const std::string& bytes) {
    const auto request = wire::native::Decode<FetchChunk>(bytes);
    if (!request.ok()) return Close();
    if (request->done) {
      // Whose memory it is may close all of this.
      const auto shown = shown_.extract(request->lease);
      return;
    }
    const auto value = options_.lent(*from_, LeaseId(request->lease));
    if (!value.has_value()) return Refuse(*request, BulkCode::kUnknown, "not lent to you");
    const bool within = value->memory != nullptr && request->bytes > 0 &&
                        (request->place || request->bytes <= kFetchChunkBytesMax) &&
                        request->offset <= value->bytes &&
                        request->bytes <= value->bytes - request->offset;
    if (!within) return Refuse(*request, BulkCode::kRange, "not within the value");
    if (request->place) return Show(*request, value->memory);
    const BulkHeaderBytes header = EncodeBulkHeader(
        {.lease = request->lease, .offset = request->offset, .bytes = request->bytes});
    Push({.head = {header.begin(), header.end()},
          .memory = value->memory,
          .body = {reinterpret_cast<const char*>(value->memory->data()) + request->offset,
                   request->bytes}});
  }

  void Show(const FetchChunk& request, const rendezvous::MemoryPtr& memory) {
    if (!proof_.has_value()) return Refuse(request, BulkCode::kNoPlace, "memory is not shown");
    if (shown_.size() >= options_.places_max && !shown_.contains(request.lease)) {
      return Refuse(request, BulkCode::kNoPlace, "too many places at a time");
    }
    shown_[request.lease] = memory;
    const BulkHeaderBytes header = EncodeBulkHeader({.code = BulkCode::kPlace,
                                                     .lease = request.lease,
                                                     .offset = request.offset,
                                                     .bytes = kBulkPlaceBytes});
    const auto address = reinterpret_cast<uint64_t>(memory->data() + request.offset);
    Push({.head = std::string(header.begin(), header.end()).append(EncodeBulkPlace(address))});
  }

  void Refuse(const FetchChunk& request, BulkCode code, std::string_view why) {
    const BulkHeaderBytes header = EncodeBulkHeader(
        {.code = code, .lease = request.lease, .offset = request.offset, .bytes = why.size()});
    Push({.head = std::string(header.begin(), header.end()).append(why)});
  }

  void Push(Answer answer) {
    if (answers_.empty()) loop_.Begin();
    answers_.push_back(std::move(answer));
  }

  void WaitToWrite() {
    if (writing_ || (bytes_.Flush() && answers_.empty())) return;
    writing_ = true;
    socket_.async_wait(stream_descriptor::wait_write,
                       [self = shared_from_this()](const asio::error_code& error) {
                         self->writing_ = false;
                         if (!error && self->open()) self->Serve();
                       });
  }

  // False: there is no room, or the connection has ended.
  bool WriteSome() {
    LOCKSTEP_DCHECK(!answers_.empty() && answers_.front().sent < answers_.front().size());
    Answer& answer = answers_.front();
    std::array<iovec, 2> pieces;
    size_t count = 0;
    const size_t body_sent = answer.sent - std::min(answer.sent, answer.head.size());
    if (answer.sent < answer.head.size()) {
      pieces[count++] = {answer.head.data() + answer.sent, answer.head.size() - answer.sent};
    }
    if (body_sent < answer.body.size()) {
      pieces[count++] = {const_cast<char*>(answer.body.data()) + body_sent,
                         answer.body.size() - body_sent};
    }
    const ssize_t sent = bytes_.Write({pieces.data(), count});
    if (sent < 0) {
      if (!WouldBlock()) Close();
      return false;
    }
    answer.sent += static_cast<size_t>(sent);
    runtime::FaultPoint("bulk/part_sent");
    if (answer.sent == answer.size()) {
      runtime::FaultPoint("bulk/chunk_sent");
      answers_.pop_front();
      if (answers_.empty()) loop_.End();
    }
    return true;
  }

  BulkLoop& loop_;
  const Options options_;
  stream_descriptor socket_;
  BulkSocket bytes_;  // of that socket
  asio::steady_timer hello_timer_;
  std::string in_;
  std::optional<MemberIndex> from_;
  std::deque<Answer> answers_;
  std::optional<MemoryProof> proof_;                 // when he may read memory
  std::map<uint64_t, rendezvous::MemoryPtr> shown_;  // by lease
  bool reading_ = false;
  bool writing_ = false;
};

void BulkServer::Accept(int fd, std::unique_ptr<runtime::SecureLayer> layer) {
  if (closed_) return runtime::CloseGuarded(fd);
  std::erase_if(sessions_, [](const auto& session) { return !session->open(); });
  if (sessions_.size() >= options_.sessions_max) {
    sessions_.front()->Close();
    sessions_.pop_front();
  }
  sessions_.push_back(std::make_shared<Session>(*this, fd, std::move(layer)));
  LOCKSTEP_DCHECK(sessions_.size() <= options_.sessions_max);
  sessions_.back()->Start();
}

void BulkServer::Close() {
  closed_ = true;
  for (const auto& session : sessions_) session->Close();
  sessions_.clear();
}

}  // namespace lockstep::transport
