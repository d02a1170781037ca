// One connection of the HTTP listener: one request, one answer, and a deadline for each.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "lockstep/platform/link/channel.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/preempt/http_wire.h"
#include "lockstep/server/http_request.h"

namespace lockstep::server {

// What all answers of a listener together hold until they are read. Confined to the listener's own
// loop. Bounds: `http_answers_bytes_max`, a part of the account; one answer alone may be larger.
class HttpAnswerMemory {
 public:
  // Of the account; and where it has no limit.
  static constexpr uint64_t kAccountPart = 8;
  static constexpr size_t kBytesMax = size_t{256} << 20;
  // Answers up to here (refusals, health) are never refused.
  static constexpr size_t kSmallBytes = size_t{16} << 10;

  // `account` outlives it; null: none.
  explicit HttpAnswerMemory(runtime::MemoryAccount* account);
  // False, and nothing is taken: there is no room.
  bool Take(size_t bytes);
  // So many that `Take` took.
  void GiveBack(size_t bytes);
  // Why there is no room: the limit by its name, and what is held.
  std::string Refusal() const;

 private:
  runtime::MemoryAccount* const account_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  runtime::MemoryShare share_;
};

// Reads a request, hands it over, writes the answer, and ends; over TLS where its channel finds
// that. How many bytes come, and how often, moves no deadline. Loop-confined to the listener's own
// loop. Bounds: `kRequestBytesMax`, `kRequestTime`, `kAnswerTime`; over TLS, `kPieceBytes` of the
// answer are there a second time.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // Line, headers and body together: `http_request_bytes_max`.
  static constexpr size_t kRequestBytesMax = 8 << 10;
  // From the connection until the request is whole, a handshake included: `http_request_time`.
  static constexpr absl::Duration kRequestTime = absl::Seconds(5);
  // For the answer to go out, however slowly it is read: `http_answer_time`.
  static constexpr absl::Duration kAnswerTime = absl::Seconds(30);
  // Of an answer, written at a time.
  static constexpr size_t kPieceBytes = size_t{64} << 10;

  using Request = preempt::HttpMessage;
  struct Events {
    // A whole request; answered by `Answer`, now or later.
    std::function<void(const std::shared_ptr<HttpConnection>&, Request)> request;
    // It is over, and forgotten by whoever counts it.
    std::function<void(HttpConnection&)> ended;
  };

  // `memory` outlives it.
  HttpConnection(runtime::Loop& loop, std::shared_ptr<link::Channel> channel, const Events& events,
                 HttpAnswerMemory& memory);
  ~HttpConnection() { Release(); }

  // Once: reads the request from now on, for `kRequestTime` at most.
  void Start();
  // The first answer counts.
  void Answer(HttpAnswer answer);
  // This answer unless another one comes first, within that time.
  void AnswerAfter(absl::Duration time, HttpAnswer answer);
  // At once, without an answer.
  void End();

  // Whether its request is not whole yet.
  bool reading() const { return state_ == State::kReading; }
  // Whether its whole answer has been handed to the system.
  bool answered() const { return state_ == State::kLingering; }
  // Whether its answer is still to come.
  bool waits() const { return state_ == State::kAsked; }
  // Whether it came by TLS, and then with a certificate of an authority that the server believes.
  bool secure() const { return channel_->secure(); }
  bool certified() const { return channel_->certified(); }
  std::vector<std::string> peer_uris() const { return channel_->peer_uris(); }

 private:
  enum class State { kReading, kAsked, kAnswering, kLingering, kEnded };

  // Unless it does already: what comes is of the request, or to be waited out.
  void Read();
  void Took(size_t bytes);
  // The next piece of the answer, and then the others.
  void Send();
  // Then waits until the other end has closed, so that no reset overtakes the answer.
  void FinishAnswer();
  // The answer is gone.
  void Release();

  runtime::Loop& loop_;
  const std::shared_ptr<link::Channel> channel_;
  runtime::Timer deadline_;
  const Events& events_;
  preempt::HttpReader reader_;
  std::array<char, 4096> buffer_;
  size_t received_ = 0;
  bool head_ = false;
  HttpAnswerMemory& memory_;
  struct {
    std::string text;  // as much of `memory_` is taken
    size_t sent = 0;   // of it
  } answer_;
  bool reads_ = false;  // a read is under way
  State state_ = State::kReading;
};

}  // namespace lockstep::server
