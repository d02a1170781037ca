#include "lockstep/server/http_connection.h"

#include <utility>

#include "asio/buffer.hpp"
#include "asio/write.hpp"

namespace lockstep::server {
namespace {

constexpr absl::Duration kLingerTime = absl::Seconds(1);

}  // namespace

HttpConnection::HttpConnection(runtime::Loop& loop, asio::ip::tcp::socket socket,
                               const Events& events)
    : socket_(std::move(socket)),
      deadline_(loop),
      events_(events),
      reader_(preempt::HttpReader::Kind::kRequest, kRequestBytesMax) {}

void HttpConnection::Start() {
  AnswerAfter(kRequestTime, HttpRefusal(408, "request_too_slow", "no whole request came in time"));
  Read();
}

void HttpConnection::Read() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const asio::error_code& error, size_t bytes) {
                            if (self->state_ != State::kReading) return;
                            if (error) return self->End();
                            self->Took(bytes);
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
    return Answer(HttpRefusal(413, "request_too_large", "requests here have no body"));
  }
  if (!status.ok()) {
    return Answer(HttpRefusal(400, "request_invalid", "this is no whole HTTP request"));
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
  state_ = State::kAnswering;
  answer_ = Encode(answer, head_);
  deadline_.Arm(runtime::MonotonicNow() + kAnswerTime, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->End();
  });
  asio::async_write(socket_, asio::buffer(answer_),
                    [self = shared_from_this()](const asio::error_code& error, size_t) {
                      if (self->state_ != State::kAnswering) return;
                      if (error) return self->End();
                      self->state_ = State::kLingering;
                      self->answer_ = {};
                      asio::error_code ignored;
                      self->socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                      self->deadline_.Arm(runtime::MonotonicNow() + kLingerTime,
                                          [weak = self->weak_from_this()] {
                                            if (const auto late = weak.lock()) late->End();
                                          });
                      self->Linger();
                    });
}

void HttpConnection::Linger() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const asio::error_code& error, size_t) {
                            if (self->state_ != State::kLingering) return;
                            if (error) return self->End();
                            self->Linger();
                          });
}

void HttpConnection::End() {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  deadline_.Cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  events_.ended(*this);
}

}  // namespace lockstep::server
