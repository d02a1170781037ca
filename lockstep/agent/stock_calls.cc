#include "lockstep/agent/stock_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ip/address.hpp"
#include "lockstep/agent/value_cipher.h"
#include "lockstep/agent/value_wire.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::agent {
namespace {

using client::CallType;
using client::Engine;
using wire::native::WithReason;

// Of an answer from another agent; the same as a link takes.
constexpr int64_t kAnswerBytesMax = int64_t{64} << 20;

// For an answer that another agent did not give: `fan_out_server_timeout`.
constexpr absl::Duration kServerTimeout = absl::Seconds(2);

absl::Status ClosedStatus() {
  return WithReason(absl::CancelledError("the agent ends"), "session_closed");
}

absl::Status CancelledStatus() {
  return WithReason(absl::CancelledError("cancelled by the caller"), "cancelled");
}

bool IsLoopback(const std::string& host) {
  asio::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return host == "localhost";
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

bool IsValid(const wire::native::FanOut& fan_out) {
  return fan_out.ticket.data.size() == kTicketBytes &&
         fan_out.key.data.size() == ValueCipher::kKeyBytes && fan_out.size > 0 &&
         fan_out.size <= kAnswerBytesMax &&
         (fan_out.answer.data == nullptr ||
          fan_out.answer.data->size() == static_cast<size_t>(fan_out.size));
}

}  // namespace

struct StockCalls::Asked {
  client::Request request;  // to ask again
  Time deadline;
  Done done;
  bool keeps = false;  // the request, as the answer may be elsewhere
  // Under the mutex, from here on.
  Pending pending;
  uint64_t asks = 0;       // how often it was asked
  uint64_t following = 0;  // its number while its answer is elsewhere
  bool cancelled = false;
};

absl::StatusOr<std::unique_ptr<StockCalls>> StockCalls::Listen(runtime::Loop& loop,
                                                               Options options) {
  const bool takes_part = options.takes_part;
  const runtime::Address at = options.listen;
  std::unique_ptr<StockCalls> calls(new StockCalls(loop, std::move(options)));
  if (!takes_part) return calls;
  absl::Status status = calls->exchange_.Listen(at);
  // A machine may have no IPv6.
  if (!status.ok() && at.host == "::") {
    status = calls->exchange_.Listen({.host = "0.0.0.0", .port = at.port});
  }
  if (!status.ok()) return status;
  return calls;
}

StockCalls::StockCalls(runtime::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      exchange_(loop, options_.values,
                {.ended = [this](PeerValues::Effects::EndedCall ended) { Ended(std::move(ended)); },
                 .ask_server = [this](const PeerValues::Ticket& ticket) { AskServer(ticket); },
                 .complain =
                     [this](std::string text) {
                       if (options_.say) options_.say(std::move(text));
                     }}) {}

StockCalls::~StockCalls() { Close(); }

void StockCalls::Start(std::shared_ptr<Engine> engine) {
  engine_ = std::move(engine);
  if (options_.takes_part) exchange_.Start();
}

void StockCalls::Close() {
  absl::flat_hash_map<uint64_t, AskedPtr> following;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    following.swap(following_);
  }
  exchange_.Stop();
  for (const auto& [number, call] : following) call->done(ClosedStatus());
}

void StockCalls::Post(std::function<void()> function) {
  loop_.Post([alive = std::weak_ptr(alive_), function = std::move(function)] {
    if (!alive.expired()) function();
  });
}

std::function<void()> StockCalls::Call(client::Request request, Done done) {
  auto call = std::make_shared<Asked>();
  call->deadline = runtime::MonotonicNow() + request.timeout;
  call->request = std::move(request);
  call->done = std::move(done);
  Ask(call);
  return [this, alive = std::weak_ptr(alive_), call] {
    if (!alive.expired()) Cancel(call);
  };
}

void StockCalls::Ask(const AskedPtr& call) {
  // No answer of an effect is elsewhere, and some are long.
  call->keeps = call->request.type != CallType::kEffect && options_.takes_part;
  client::Request request = call->keeps ? call->request : std::move(call->request);
  uint64_t ask = 0;
  {
    const MutexLock lock(mutex_);
    ask = ++call->asks;
  }
  Pending pending = engine_->CallAsync(std::move(request), [this, call](Engine::Answer&& answer) {
    // What the engine refuses is told when this may have gone.
    if (!answer.ok()) return call->done(answer.status());
    Answered(call, *std::move(answer));
  });
  bool cancelled = false;
  {
    const MutexLock lock(mutex_);
    // It may have been answered, and asked again, meanwhile.
    if (call->asks == ask) call->pending = pending;
    cancelled = call->cancelled;
  }
  if (cancelled) pending.Cancel();
}

void StockCalls::Answered(const AskedPtr& call, std::string answer) {
  auto reply = wire::native::Decode<Reply>(std::move(answer));
  if (!reply.ok() || !reply->fan_out) return call->done(std::move(reply));
  FanOut& fan_out = *reply->fan_out;
  if (!IsValid(fan_out) || !call->keeps) {
    return call->done(absl::InternalError("the server named no answer that could be had"));
  }
  if (fan_out.answer.data == nullptr) return Follow(call, std::move(fan_out));
  auto whole = wire::native::Decode<Reply>(*fan_out.answer.data);
  Post([this, ticket = fan_out.ticket.data, source = SourceOf(fan_out),
        value = fan_out.answer.data] { exchange_.Given(ticket, source, value); });
  call->done(std::move(whole));
}

void StockCalls::Follow(const AskedPtr& call, FanOut fan_out) {
  absl::Status refused;
  {
    const MutexLock lock(mutex_);
    if (closed_) {
      refused = ClosedStatus();
    } else if (call->cancelled) {
      refused = CancelledStatus();
    } else {
      const uint64_t number = ++last_number_;
      call->following = number;
      following_.emplace(number, call);
      // Within the lock: before the news that the caller has left.
      Post([this, number, deadline = call->deadline, ticket = fan_out.ticket.data,
            source = SourceOf(fan_out)] { exchange_.Told(ticket, source, number, deadline); });
    }
  }
  if (!refused.ok()) call->done(refused);
}

PeerValues::Source StockCalls::SourceOf(FanOut& fan_out) const {
  PeerValues::Source source = {.key = std::move(fan_out.key.data),
                               .size = static_cast<size_t>(fan_out.size),
                               .from = std::move(fan_out.from)};
  auto from = runtime::ParseAddress(source.from);
  const std::string server = engine_->leader().host;
  if (from.ok() && IsLoopback(from->host) && !IsLoopback(server)) {
    // It is on the server's own host, and called it there.
    from->host = server;
    source.from = runtime::ToString(*from);
  }
  return source;
}

void StockCalls::Cancel(const AskedPtr& call) {
  Pending pending;
  uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    call->cancelled = true;
    pending = call->pending;
    number = call->following;
  }
  pending.Cancel();
  if (number == 0 || Take(number) == nullptr) return;
  Post([this, number] { exchange_.CallLeft(number); });
  call->done(CancelledStatus());
}

StockCalls::AskedPtr StockCalls::Take(uint64_t number) {
  const MutexLock lock(mutex_);
  auto call = following_.extract(number);
  if (call.empty()) return nullptr;
  call.mapped()->following = 0;
  return std::move(call.mapped());
}

void StockCalls::Ended(PeerValues::Effects::EndedCall&& ended) {
  const AskedPtr call = Take(ended.call);
  if (call == nullptr) return;
  switch (ended.end) {
    case PeerValues::End::kValue:
      return call->done(wire::native::Decode<Reply>(*ended.value));
    case PeerValues::End::kDeadline:
      return call->done(WithReason(
          absl::DeadlineExceededError(absl::StrCat("time is up: ", call->request.what,
                                                   " was answered, but the answer did not come "
                                                   "from another agent in time")),
          "deadline_exceeded"));
    case PeerValues::End::kAgain:
      call->request.timeout = call->deadline - runtime::MonotonicNow();
      return Ask(call);
  }
}

void StockCalls::AskServer(const PeerValues::Ticket& ticket) {
  const wire::native::FetchAnswer asked = {.ticket = {ticket}};
  engine_->CallAsync(
      {.kind = wire::native::KindOf<wire::native::FetchAnswer>::kKind,
       .type = CallType::kRead,
       .payload = wire::native::Encode(asked),
       // While the server is out of reach, those who wait here are not to be held up.
       .timeout = kServerTimeout,
       .what = "an answer that another agent did not give"},
      [this, ticket](Engine::Answer&& answer) { ServerAnswered(ticket, std::move(answer)); });
}

void StockCalls::ServerAnswered(const PeerValues::Ticket& ticket, Engine::Answer answer) {
  auto reply = answer.ok() ? wire::native::Decode<Reply>(*std::move(answer))
                           : absl::StatusOr<Reply>(answer.status());
  if (!reply.ok() || !reply->fan_out || !IsValid(*reply->fan_out) ||
      reply->fan_out->answer.data == nullptr) {
    return Post([this, ticket] { exchange_.ServerFailed(ticket); });
  }
  Post([this, ticket, source = SourceOf(*reply->fan_out), value = reply->fan_out->answer.data] {
    exchange_.Given(ticket, source, value);
  });
}

}  // namespace lockstep::agent
