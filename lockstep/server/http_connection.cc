#include "lockstep/server/http_connection.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "lockstep/base/check.h"

namespace lockstep::server {
namespace {

constexpr absl::Duration kLingerTime = absl::Seconds(1);
static_assert(HttpAnswerMemory::kSmallBytes < HttpAnswerMemory::kBytesMax);
static_assert(HttpConnection::kRequestTime < HttpConnection::kAnswerTime);

}  // namespace

HttpAnswerMemory::HttpAnswerMemory(runtime::MemoryAccount* account)
    : account_(account),
      bytes_max_(account == nullptr || account->limit() == 0 ? kBytesMax
                                                             : account->limit() / kAccountPart),
      share_(account, "HTTP", "answers that wait to be read") {}

bool HttpAnswerMemory::Take(size_t bytes) {
  if (bytes > kSmallBytes) {
    if (bytes_ > kSmallBytes && bytes_ + bytes > bytes_max_) return false;
    if (account_ != nullptr && !account_->Holds(bytes)) return false;
  }
  bytes_ += bytes;
  share_.Set(bytes_);
  return true;
}

void HttpAnswerMemory::GiveBack(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= bytes_);
  bytes_ -= bytes;
  share_.Set(bytes_);
}

std::string HttpAnswerMemory::Refusal() const {
  return absl::StrCat("answers of ", bytes_, " bytes wait until they are read ",
                      "(http_answers_bytes_max ", bytes_max_,
                      "), or the server's memory is full (memory_max); read them, or ask again "
                      "later");
}

HttpConnection::HttpConnection(runtime::Loop& loop, std::shared_ptr<link::Channel> channel,
                               const Events& events, HttpAnswerMemory& memory)
    : loop_(loop),
      channel_(std::move(channel)),
      deadline_(loop),
      events_(events),
      reader_(preempt::HttpReader::Kind::kRequest, kRequestBytesMax),
      memory_(memory) {}

void HttpConnection::Start() {
  AnswerAfter(kRequestTime,
              HttpRefusal(408, "request_too_slow", "the request did not arrive in time"));
  Read();
}

void HttpConnection::Read() {
  if (std::exchange(reads_, true)) return;
  channel_->ReadSome({asio::mutable_buffer(), asio::buffer(buffer_)},
                     [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                       self->reads_ = false;
                       const bool reading = self->state_ == State::kReading;
                       if (!reading && self->state_ != State::kLingering) return;
                       if (error) return self->End();
                       reading ? self->Took(bytes) : self->Read();
                     });
}

void HttpConnection::Took(size_t bytes) {
  received_ += bytes;
  if (received_ > kRequestBytesMax) {
    return Answer(HttpRefusal(431, "request_too_large",
                              "a request has at most 8 KiB (http_request_bytes_max)"));
  }
  const absl::Status status = reader_.Take({buffer_.data(), bytes});
  if (absl::IsResourceExhausted(status)) {
    return Answer(HttpRefusal(413, "request_too_large", "requests with a body are not accepted"));
  }
  if (!status.ok()) {
    return Answer(HttpRefusal(400, "request_invalid", "malformed HTTP request"));
  }
  if (!reader_.done()) return Read();
  state_ = State::kAsked;
  deadline_.Cancel();
  head_ = reader_.message().method == "HEAD";
  events_.request(shared_from_this(), reader_.message());
}

void HttpConnection::AnswerAfter(absl::Duration time, HttpAnswer answer) {
  deadline_.Arm(runtime::MonotonicNow() + time,
                [weak = weak_from_this(), answer = std::move(answer)]() mutable {
                  if (const auto self = weak.lock()) self->Answer(std::move(answer));
                });
}

void HttpConnection::Answer(HttpAnswer answer) {
  if (state_ != State::kReading && state_ != State::kAsked) return;
  // Without a word of a request the handshake may not be done, so that nothing can be said.
  if (secure() && received_ == 0) return End();
  state_ = State::kAnswering;
  answer_.text = Encode(answer, head_);
  if (!memory_.Take(answer_.text.size())) {
    answer_.text = Encode(HttpRefusal(503, "memory_max", memory_.Refusal()), head_);
    memory_.Take(answer_.text.size());
  }
  deadline_.Arm(runtime::MonotonicNow() + kAnswerTime, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->End();
  });
  Send();
}

void HttpConnection::Send() {
  if (state_ != State::kAnswering) return;
  if (answer_.sent == answer_.text.size()) return FinishAnswer();
  const size_t bytes = std::min(kPieceBytes, answer_.text.size() - answer_.sent);
  std::vector<asio::const_buffer> piece = {asio::buffer(answer_.text.data() + answer_.sent, bytes)};
  answer_.sent += bytes;
  const bool gone =
      channel_->Write(piece, [self = shared_from_this()](const asio::error_code& error, size_t) {
        if (self->state_ != State::kAnswering) return;
        if (error) return self->End();
        self->Send();
      });
  // A client that reads as fast as this writes gets no more of a turn than others.
  if (gone) loop_.Post([self = shared_from_this()] { self->Send(); });
}

void HttpConnection::FinishAnswer() {
  state_ = State::kLingering;
  Release();
  channel_->ShutdownSend();
  deadline_.Arm(runtime::MonotonicNow() + kLingerTime, [weak = weak_from_this()] {
    if (const auto late = weak.lock()) late->End();
  });
  Read();
}

void HttpConnection::Release() {
  memory_.GiveBack(answer_.text.size());
  std::string().swap(answer_.text);
}

void HttpConnection::End() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  deadline_.Cancel();
  channel_->Close();
  events_.ended(*this);
}

}  // namespace lockstep::server
