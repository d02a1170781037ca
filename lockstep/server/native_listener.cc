#include "lockstep/server/native_listener.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/to_event.h"

namespace lockstep::server {
namespace {

using wire::native::KindOf;
using wire::native::OpenSession;
using wire::native::StockCall;
using wire::native::StockCallReply;
using wire::native::TorchCommand;
using wire::native::WithReason;

// Others open no sessions.
coord::Standing StandingOf(wire::native::Role role) {
  if (role == wire::native::Role::kOperate) return coord::Standing::kOperator;
  return role == wire::native::Role::kLaunch ? coord::Standing::kLauncher : coord::Standing::kTask;
}

bool IsOfStockClient(wire::native::RequestKind kind) {
  return kind == KindOf<StockCall>::kKind || kind == KindOf<TorchCommand>::kKind;
}

bool BindsOrUnbinds(wire::native::RequestKind kind) {
  return kind == KindOf<OpenSession>::kKind || kind == KindOf<wire::native::CloseSession>::kKind;
}

absl::Status NoSession() {
  return WithReason(
      absl::FailedPreconditionError("no session is open on this link: send OpenSession first (with "
                                    "`resume` if the session is older than the link)"),
      "no_session");
}

absl::Status SecondSession() {
  return WithReason(absl::InvalidArgumentError(
                        "this link already has a session: open another session on its own link"),
                    "invalid_argument");
}

absl::Status NoStockClients() {
  return WithReason(absl::UnavailableError("this job has no service for stock clients"),
                    "no_stock_service");
}

absl::Status AnswerGone() {
  return WithReason(absl::NotFoundError("the server does not keep that answer any more: make the "
                                        "calls again"),
                    "answer_gone");
}

// Of an agent that could not have an answer from another one.
void FetchAgain(FanOut* fan_out, const link::Request& request, link::Responder responder) {
  const auto asked = wire::native::Decode<wire::native::FetchAnswer>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  auto answer = fan_out == nullptr ? nullptr : fan_out->Fetch(request.link, asked->ticket.data);
  if (answer == nullptr) return responder.Fail(AnswerGone());
  responder.Send({.failed = false, .bytes = "", .shared = std::move(answer)});
}

// HOST:PORT at which others reach the agent that called from `peer`; empty: at none.
std::string ReachedAt(std::string_view peer, uint32_t port) {
  auto address = runtime::ParseAddress(peer);
  if (!address.ok() || port == 0 || port > std::numeric_limits<uint16_t>::max()) return "";
  address->port = static_cast<uint16_t>(port);
  return runtime::ToString(*address);
}

absl::Status NoNumber() {
  return WithReason(absl::InvalidArgumentError("request numbers of a session start at 1"),
                    "invalid_argument");
}

}  // namespace

void NativeListener::Take(link::Request&& request, link::Responder&& responder) {
  if (request.kind == KindOf<OpenSession>::kKind) return Open(request, std::move(responder));
  const Speaker* const speaker = SpeakerOf(request, responder);
  if (speaker == nullptr) return;
  const CallId call = call_ids_.Next();
  const wire::native::RequestContext from = {.caller = {.call = call,
                                                        .session = speaker->session,
                                                        .number = request.id,
                                                        .standing = StandingOf(request.rights.role),
                                                        .bound = request.rights.member},
                                             .now = runtime::MonotonicNow(),
                                             .peer = request.peer};
  auto event = wire::native::ToEvent(request.kind, request.payload, from);
  if (!event.ok()) return responder.Fail(event.status());
  Begin(request.link, call, *std::move(event), std::move(responder));
}

const NativeListener::Speaker* NativeListener::SpeakerOf(const link::Request& request,
                                                         link::Responder& responder) const {
  const auto found = speakers_.find(request.link);
  absl::Status refusal;
  if (found == speakers_.end()) {
    refusal = NoSession();
  } else if (found->second.job == nullptr) {
    refusal = found->second.why;
  } else if (request.id == 0) {
    refusal = NoNumber();
  }
  if (refusal.ok()) return &found->second;
  responder.Fail(std::move(refusal));
  return nullptr;
}

void NativeListener::TakeStock(const link::Request& request, link::Responder responder) {
  const Speaker* const speaker = SpeakerOf(request, responder);
  if (speaker == nullptr) return;
  switch (request.kind) {
    case KindOf<wire::native::JoinHosts>::kKind:
      return TakeJoinHosts(request, *speaker, std::move(responder));
    case KindOf<TorchCommand>::kKind:
      return TakeTorchCommand(request, *speaker, std::move(responder));
    case KindOf<wire::native::FetchAnswer>::kKind:
      return FetchAgain(fan_out_.get(), request, std::move(responder));
    default:
      return TakeStockCall(request, *speaker, std::move(responder));
  }
}

void NativeListener::TakeJoinHosts(const link::Request& request, const Speaker& speaker,
                                   link::Responder responder) {
  const auto asked = wire::native::Decode<wire::native::JoinHosts>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  if (join_hosts_ == nullptr) return responder.Fail(NoStockClients());
  const auto reply = join_hosts_(*speaker.job, speaker.session, request.link, *asked);
  if (!reply.ok()) return responder.Fail(reply.status());
  responder.Answer(wire::native::Encode(*reply));
}

void NativeListener::Ended(const NativeJob& job, SessionId agent, const absl::Status& why) {
  const auto found = sessions_.find({&job, agent});
  if (found == sessions_.end()) return;
  const link::LinkId link = found->second;
  // As a link that breaks: who called over it is told of by its job.
  Part(link, /*silent=*/true);
  close_link_(link, why);
}

void NativeListener::TakeTorchCommand(const link::Request& request, const Speaker& speaker,
                                      link::Responder responder) {
  const auto asked = wire::native::Decode<TorchCommand>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  TorchCommands* const commands = speaker.job->torch_commands();
  if (commands == nullptr) return responder.Fail(NoStockClients());
  const CallId call = call_ids_.Next();
  const SessionId agent = speaker.session;
  Wait(request.link, call, std::move(responder));
  const absl::Status begun = commands->Begin(call, agent, std::string(request.peer), *asked);
  if (!begun.ok()) AnswerTorch(call, begun);
}

void NativeListener::AnswerTorch(CallId call,
                                 absl::StatusOr<wire::native::TorchCommandReply> reply) {
  std::optional<link::Responder> responder = Take(call);
  if (!responder) return;
  if (!reply.ok()) return responder->Fail(reply.status());
  responder->Answer(wire::native::Encode(*reply));
}

void NativeListener::TakeStockCall(const link::Request& request, const Speaker& speaker,
                                   link::Responder responder) {
  const auto asked = wire::native::Decode<StockCall>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  StockCalls* const calls = speaker.job->stock_calls();
  if (calls == nullptr) return responder.Fail(NoStockClients());
  const CallId call = call_ids_.Next();
  // Whatever the agent may do: it asks for a task.
  const coord::Caller caller = {.call = call,
                                .number = request.id,
                                .standing = coord::Standing::kTask,
                                .bound = request.rights.member,
                                .agent = speaker.session};
  // The agent counts its connections; its session is a secret.
  std::string connection =
      absl::StrCat(speaker.session.high, ":", speaker.session.low, ":", asked->connection);
  auto begun = calls->Begin(*asked, caller, std::move(connection), std::string(request.peer));
  if (const auto* reply = std::get_if<StockCallReply>(&begun)) {
    return responder.Answer(wire::native::Encode(*reply));
  }
  Begin(request.link, call, std::get<coord::Event>(std::move(begun)), std::move(responder));
}

void NativeListener::Open(const link::Request& request, link::Responder responder) {
  if (speakers_.contains(request.link)) return responder.Fail(SecondSession());
  auto open = wire::native::Decode<OpenSession>(request.payload);
  if (!open.ok()) return responder.Fail(WithReason(open.status(), "invalid_argument"));
  const auto session = wire::native::ToSessionId(open->session);
  if (!session.ok()) return responder.Fail(session.status());
  auto job = open_job_(*open, request.rights);
  if (!job.ok()) return responder.Fail(job.status());

  // A link that the client has given up, and we have not missed yet.
  if (const auto old = sessions_.find({*job, *session}); old != sessions_.end()) {
    const link::LinkId old_link = old->second;
    Part(old_link, /*silent=*/true);
    close_link_(old_link, absl::UnavailableError("its session has moved to a newer link"));
  }
  speakers_[request.link] = {.job = *job,
                             .why = {},
                             .session = *session,
                             .shares_answers = open->shares_answers,
                             .open = {}};
  sessions_[{*job, *session}] = request.link;
  if (std::string at = ReachedAt(request.peer, open->fan_out_port);
      fan_out_ != nullptr && open->shares_answers && !at.empty()) {
    fan_out_->Joined(request.link, *job, std::move(at));
  }
  ++sessions_of_[*job];
  const CallId call = call_ids_.Next();
  Begin(request.link, call,
        coord::OpenSession{.call = call,
                           .session = *session,
                           .resume = open->resume,
                           .who = std::string(request.who),
                           .peer = std::string(request.peer)},
        std::move(responder));
}

void NativeListener::Begin(link::LinkId link, CallId call, coord::Event&& event,
                           link::Responder&& responder) {
  NativeJob* const job = Wait(link, call, std::move(responder));
  job->Handle(std::move(event));
}

NativeJob* NativeListener::Wait(link::LinkId link, CallId call, link::Responder&& responder) {
  Speaker& speaker = speakers_.at(link);
  LOCKSTEP_DCHECK(speaker.job != nullptr);
  speaker.open.emplace(responder.id(), call);
  calls_.emplace(call, std::move(responder));
  return speaker.job;
}

void NativeListener::Answer(const std::vector<coord::Reply>& replies) {
  SharedAnswers shared(fan_out_.get());
  Answer(replies, shared);
  shared.SendAll();
}

void NativeListener::Answer(const std::vector<coord::Reply>& replies, SharedAnswers& shared) {
  if (calls_.empty()) return;
  const Time now = runtime::MonotonicNow();
  // Told when all is answered: that may bring about more answers.
  std::vector<std::pair<NativeJob*, coord::CallLeft>> left;
  for (const coord::Reply& reply : replies) {
    std::optional<link::Responder> taken = Take(reply.call);
    if (!taken) continue;
    link::Responder responder = *std::move(taken);
    if (responder.kind() == KindOf<StockCall>::kKind) {
      const Speaker& speaker = speakers_.at(responder.link());
      wire::native::StockCallReply answer = speaker.job->stock_calls()->End(reply);
      // To a stock client that would be the end. The agent's session asks the next server.
      if (reply.error != nullptr && reply.error->reason == coord::Reason::kServiceStopped) {
        responder.Fail(wire::native::WithReason(
            absl::AbortedError(answer.message),
            std::string(coord::ReasonName(coord::Reason::kServiceStopped))));
        continue;
      }
      // Only what was read: that is safe to ask for twice.
      const bool fan_out = fan_out_ != nullptr && reply.error == nullptr &&
                           std::holds_alternative<coord::KeyRead>(reply.answer) &&
                           fan_out_->TakesPart(responder.link());
      shared.Add(std::move(responder), std::move(answer),
                 {.shared = speaker.shares_answers, .fan_out = fan_out});
      continue;
    }
    // A session that could not be opened, or is closed, leaves its link free for another.
    const bool opens = responder.kind() == KindOf<OpenSession>::kKind;
    if (BindsOrUnbinds(responder.kind()) && opens == (reply.error != nullptr)) {
      Forget(responder.link(), left);
    }
    wire::native::EncodedReply encoded = encoder_.Encode(now, responder.kind(), reply);
    responder.Send({.failed = encoded.failed,
                    .bytes = std::move(encoded.bytes),
                    .shared = std::move(encoded.shared)});
  }
  for (const auto& [job, call] : left) job->Handle(call);
}

std::optional<link::Responder> NativeListener::Take(CallId call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return std::nullopt;
  link::Responder responder = std::move(found->second);
  calls_.erase(found);
  speakers_.at(responder.link()).open.erase(responder.id());
  return responder;
}

std::optional<wire::native::RequestKind> NativeListener::Asked(CallId call) const {
  const auto found = calls_.find(call);
  const bool own = found != calls_.end() && !IsOfStockClient(found->second.kind());
  return own ? std::optional(found->second.kind()) : std::nullopt;
}

void NativeListener::AnswerEncoded(CallId call, std::shared_ptr<const std::string> bytes) {
  if (std::optional<link::Responder> responder = Take(call)) {
    responder->Send({.failed = false, .bytes = "", .shared = std::move(bytes)});
  }
}

void NativeListener::Cancelled(link::LinkId link, uint64_t id) {
  const auto speaker = speakers_.find(link);
  if (speaker == speakers_.end() || speaker->second.job == nullptr) return;
  const auto open = speaker->second.open.find(id);
  if (open == speaker->second.open.end()) return;
  const CallId call = open->second;
  const auto found = calls_.find(call);
  // What a speaker has open waits here.
  LOCKSTEP_DCHECK(found != calls_.end());
  if (BindsOrUnbinds(found->second.kind())) return;  // answered at once
  link::Responder responder = std::move(found->second);
  calls_.erase(found);
  speaker->second.open.erase(open);
  NativeJob& job = *speaker->second.job;
  const wire::native::RequestKind kind = responder.kind();
  responder.Fail(WithReason(absl::CancelledError("cancelled by the caller"), "cancelled"));
  if (kind == KindOf<TorchCommand>::kKind) return job.torch_commands()->Left(call, /*away=*/false);
  if (kind == KindOf<StockCall>::kKind) job.stock_calls()->Left(call);
  job.Handle(coord::CallLeft{call});
}

void NativeListener::Answered(link::LinkId link, uint64_t through) {
  const auto speaker = speakers_.find(link);
  if (speaker == speakers_.end() || speaker->second.job == nullptr) return;
  speaker->second.job->Handle(
      coord::AnsweredThrough{.session = speaker->second.session, .number = through});
}

void NativeListener::Ended(link::LinkId link, bool by_peer) { Part(link, /*silent=*/!by_peer); }

std::vector<coord::CallLeft> NativeListener::EndOpenCalls(Speaker& speaker, const absl::Status& why,
                                                          Agent agent) {
  std::vector<coord::CallLeft> calls;
  calls.reserve(speaker.open.size());
  for (const auto& [number, call] : speaker.open) calls.push_back({.call = call});
  std::sort(calls.begin(), calls.end(),
            [](const auto& one, const auto& other) { return one.call < other.call; });
  speaker.open.clear();
  // All are answered before anybody is told: who hears of the first may answer another one.
  std::vector<wire::native::RequestKind> kinds;
  kinds.reserve(calls.size());
  for (const coord::CallLeft& left : calls) {
    auto found = calls_.extract(left.call);
    LOCKSTEP_DCHECK(!found.empty());
    kinds.push_back(found.mapped().kind());
    found.mapped().Fail(why);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    coord::CallLeft& left = calls[i];
    if (kinds[i] == KindOf<TorchCommand>::kKind) {
      // Even where the link was closed: the session may be resumed, and ends by itself.
      speaker.job->torch_commands()->Left(left.call, /*away=*/true);
      left.call = CallId();
    } else if (kinds[i] == KindOf<StockCall>::kKind) {
      left.agent = agent;
      speaker.job->stock_calls()->Left(left.call);
    }
  }
  // Those are none of the coordinator's.
  std::erase_if(calls, [](const coord::CallLeft& left) { return left.call == CallId(); });
  return calls;
}

bool NativeListener::Part(link::LinkId link, bool silent) {
  auto node = speakers_.extract(link);
  if (node.empty()) return false;
  if (fan_out_ != nullptr) fan_out_->Left(link);
  Speaker& speaker = node.mapped();
  // All of them before the job hears of the first: it may answer another one at that.
  const std::vector<coord::CallLeft> calls =
      EndOpenCalls(speaker, absl::UnavailableError("the session's link ended"),
                   silent ? Agent::kAway : Agent::kEnded);
  if (speaker.job == nullptr) return true;
  EraseSession(speaker.job, speaker.session);
  for (const coord::CallLeft& left : calls) speaker.job->Handle(left);
  speaker.job->Handle(coord::SessionBroke{.session = speaker.session, .silent = silent});
  return true;
}

void NativeListener::Forget(link::LinkId link,
                            std::vector<std::pair<NativeJob*, coord::CallLeft>>& left) {
  const auto speaker = speakers_.find(link);
  NativeJob* const job = speaker->second.job;
  for (const coord::CallLeft& call : EndOpenCalls(speaker->second, NoSession(), Agent::kEnded)) {
    left.emplace_back(job, call);
  }
  EraseSession(job, speaker->second.session);
  speakers_.erase(speaker);
  if (fan_out_ != nullptr) fan_out_->Left(link);
}

void NativeListener::JobDeleted(const NativeJob& job, const absl::Status& why) {
  if (fan_out_ != nullptr) fan_out_->JobDeleted(&job);
  for (auto& [link, speaker] : speakers_) {
    if (speaker.job != &job) continue;
    EndOpenCalls(speaker, why, Agent::kEnded);
    EraseSession(speaker.job, speaker.session);
    speaker.job = nullptr;
    speaker.why = why;
  }
}

void NativeListener::EraseSession(const NativeJob* job, SessionId session) {
  if (sessions_.erase({job, session}) == 0) return;
  if (const auto count = sessions_of_.find(job); --count->second == 0) sessions_of_.erase(count);
}

size_t NativeListener::CountSessions(const NativeJob& job) const {
  const auto count = sessions_of_.find(&job);
  return count == sessions_of_.end() ? 0 : count->second;
}

}  // namespace lockstep::server
