#include "lockstep/server/data_host.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "lockstep/platform/link/kinds.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/unknown_request.h"

namespace lockstep::server {
namespace {

namespace native = wire::native;

absl::Status ServerEnds() {
  return native::WithReason(
      absl::UnavailableError("the server cannot write its state and is shutting down: this request "
                             "may or may not have taken effect; retry when the server is back"),
      "service_stopped");
}

}  // namespace

DataHost::DataHost(runtime::Loop& loop, dispatch::Options options, bool keeps, CommitQueue& commits,
                   size_t journal_queue_bytes_max, runtime::MemoryAccount& memory, Tell tell)
    : commits_(commits),
      dispatcher_(loop, options, keeps, [this] { Handle(dispatch::DeadlineReached{}); }),
      gate_(commits,
            [this](const dispatch::Effects& effects, bool durable) { CarryOut(effects, durable); }),
      budget_(memory),
      log_(std::move(tell)),
      ends_(
          loop,
          [this](dispatch::IterationId iteration, dispatch::ConsumerId consumer) {
            return dispatcher_->ProcessOf(iteration, consumer);
          },
          [this](const dispatch::ConsumerEnded& fact) { Handle(fact); }),
      backlog_(
          commits, journal_queue_bytes_max,
          [this](link::Request request, link::Responder responder) {
            TakeUp(std::move(request), std::move(responder));
          },
          [this] { CountMemory(); }),
      views_(
          loop,
          [this](Time now, dispatch::ViewCursor& cursor, dispatch::View& part) {
            return dispatcher_->ReadView(now, cursor, part);
          },
          [this] { CountMemory(); }),
      checks_(
          loop, options.definition_bytes_max,
          [this](CallId call, CheckedDefinition checked) { Registered(call, std::move(checked)); },
          [this] { CountMemory(); }) {}

DataHost::~DataHost() = default;

template <class Message, class Then>
void DataHost::TakeAs(const link::Request& request, link::Responder responder, Then then) {
  auto message = native::Decode<Message>(request.payload);
  if (!message.ok()) {
    ++counters_.refused;
    return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
  }
  const CallId call = calls_.Open(request, std::move(responder));
  auto event = native::EventOf(*message, call);
  if (!event.ok()) return Refuse(call, native::WithReason(event.status(), "invalid_argument"));
  if (absl::Status room = CheckRoom(*event); !room.ok()) return Refuse(call, room);
  // Who was refused does not speak for the worker or consumer that it names.
  auto accepted = then(*event);
  if (Handle(*std::move(event), call)) accepted();
}

void DataHost::Take(link::Request request, link::Responder responder) {
  if (absl::Status refusal = dispatcher_.Refused(); !refusal.ok()) {
    ++counters_.refused;
    return responder.Fail(refusal);
  }
  if (!backlog_.MustWait(request)) return TakeUp(std::move(request), std::move(responder));
  if (absl::Status room = backlog_.CheckRoom(request); !room.ok()) {
    ++counters_.refused;
    return responder.Fail(room);
  }
  backlog_.Add(std::move(request), std::move(responder));
}

void DataHost::TakeUp(link::Request request, link::Responder responder) {
  switch (request.kind) {
    case native::KindOf<native::RegisterDataset>::kKind:
      return Register(request, std::move(responder));
    case native::KindOf<native::GetDataset>::kKind: {
      auto message = native::Decode<native::GetDataset>(request.payload);
      if (!message.ok()) {
        return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
      }
      Handle(dispatch::GetDataset{.call = calls_.Open(request, std::move(responder)),
                                  .dataset = dispatch::DatasetId(message->dataset),
                                  .name = std::move(message->name)});
      return;
    }
    case native::KindOf<native::DataStatus>::kKind: {
      return AskView([this, responder = std::move(responder)](SharedView view) mutable {
        commits_.Follow([responder = std::move(responder), view](bool durable) mutable {
          if (!durable) return responder.Fail(ServerEnds());
          responder.Send({.failed = false, .bytes = "", .shared = std::move(view)});
        });
      });
    }
    case native::KindOf<native::OpenIteration>::kKind:
      return TakeAs<native::OpenIteration>(request, std::move(responder),
                                           [&](dispatch::OpenIteration& open) {
                                             open.job = request.rights.job;
                                             return [] {};
                                           });
    case native::KindOf<native::ConsumerPoll>::kKind:
      ++counters_.polls_of_consumers;
      return TakeAs<native::ConsumerPoll>(
          request, std::move(responder), [&](const dispatch::ConsumerPoll& poll) {
            return [this, link = request.link, key = ConsumerKey(poll.iteration, poll.consumer)] {
              ConsumerSpeaks(link, key);
            };
          });
    case native::KindOf<native::CloseConsumer>::kKind:
      return TakeAs<native::CloseConsumer>(
          request, std::move(responder), [&](const dispatch::CloseConsumer& close) {
            return [this, link = request.link, key = ConsumerKey(close.iteration, close.consumer)] {
              speakers_.Closes(link, key);
            };
          });
    case native::KindOf<native::WorkerPoll>::kKind:
      ++counters_.polls_of_workers;
      return TakeAs<native::WorkerPoll>(request, std::move(responder),
                                        [&](const dispatch::WorkerPoll& poll) {
                                          return [this, link = request.link, worker = poll.worker] {
                                            speakers_.Speaks(link, worker);
                                          };
                                        });
    default:
      return responder.Fail(native::UnknownRequest(request.kind));
  }
}

void DataHost::Register(const link::Request& request, link::Responder responder) {
  auto message = native::Decode<native::RegisterDataset>(request.payload);
  if (!message.ok()) {
    return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
  }
  const CallId call = calls_.Open(request, std::move(responder));
  const size_t bytes = message->definition.data.size();
  // Before it is looked at, which costs more than its bytes.
  absl::Status room = checks_.CheckLength(bytes);
  if (room.ok()) room = budget_.CheckRoom(bytes, gate_.keeps());
  if (room.ok()) room = checks_.CheckRoom(bytes);
  if (!room.ok()) return Refuse(call, room);
  checks_.Check(call, *std::move(message));
}

void DataHost::Registered(CallId call, CheckedDefinition checked) {
  DataCall* open = calls_.Find(call);
  if (open == nullptr) return;  // whoever asked has gone
  if (!checked.status.ok()) return Refuse(call, checked.status);
  open->identity = checked.event.identity;
  open->element_spec = checked.event.element_spec;
  Handle(std::move(checked.event));
}

absl::Status DataHost::CheckRoom(const dispatch::OpenIteration& request) const {
  return budget_.CheckRoom(request, gate_.keeps());
}

absl::Status DataHost::CheckRoom(const dispatch::WorkerPoll& request) const {
  return budget_.CheckRoom(request, speakers_.HasLink(request.worker), gate_.keeps());
}

void DataHost::CountMemory() {
  budget_.Set({.workers = speakers_.workers(),
               .calls = calls_.size(),
               .bytes = checks_.bytes() + backlog_.bytes() + views_.bytes()},
              gate_.keeps());
}

void DataHost::Refuse(CallId call, const absl::Status& why) {
  ++counters_.refused;
  if (auto open = calls_.Close(call)) open->responder.Fail(why);
}

void DataHost::Cancelled(link::LinkId link, uint64_t id) {
  if (backlog_.Cancel(link, id)) return;
  const std::optional<CallId> call = calls_.OfRequest(link, id);
  if (!call) return;
  Refuse(*call, native::WithReason(absl::CancelledError("the caller does not wait any more"),
                                   "cancelled"));
  Handle(dispatch::CallLeft{*call});
}

void DataHost::Ended(link::LinkId link) {
  backlog_.EndLink(link);
  const DataSpeakers::OfLink speakers = speakers_.EndLink(link);
  for (const CallId call : calls_.EndLink(link)) {
    // Its responder swallows what it is given: the link is gone.
    if (auto open = calls_.Close(call)) open->responder.Answer({});
    Handle(dispatch::CallLeft{call});
  }
  // Who has spoken over another link since is not concerned.
  for (const dispatch::WorkerId worker : speakers.workers) {
    if (speakers_.Leaves(link, worker)) Handle(dispatch::WorkerLinkEnded{worker});
  }
  for (const ConsumerKey& consumer : speakers.consumers) {
    if (!speakers_.Leaves(link, consumer)) continue;
    Handle(dispatch::ConsumerLinkEnded{consumer.first, consumer.second});
    const auto process = dispatcher_->ProcessOf(consumer.first, consumer.second);
    if (process) ends_.LinkEnded(*process);
  }
}

void DataHost::ConsumerSpeaks(link::LinkId link, const ConsumerKey& key) {
  speakers_.Speaks(link, key);
  ends_.Speaks(key.first, key.second);
}

void DataHost::ProcessEnded(const std::string& job, const link::Rights& rights,
                            const std::string& host, int64_t pid) {
  for (const dispatch::ConsumerProcess& one : dispatcher_->Processes()) {
    if (one.host != host || one.pid != pid) continue;
    if (one.job == job || (one.job.empty() && rights.job.empty())) TakeEnd(one, EndOf::kProcess);
  }
}

void DataHost::MemberLost(const std::string& job, bool jobs_are_apart, const std::string& host,
                          int64_t pid) {
  for (const dispatch::ConsumerProcess& one : dispatcher_->Processes()) {
    if (one.host != host || one.pid != pid) continue;
    if (one.job == job || (one.job.empty() && !jobs_are_apart)) TakeEnd(one, EndOf::kMember);
  }
}

void DataHost::TakeEnd(const dispatch::ConsumerProcess& process, EndOf what) {
  if (!speakers_.HasLink(ConsumerKey(process.iteration, process.consumer))) {
    Handle(dispatch::ConsumerEnded{process.iteration, process.consumer, process.life});
  } else if (what == EndOf::kProcess) {
    // Its link will end, unless another process has its number by now.
    ends_.ReportEnded(process);
  } else {
    ends_.ReportLost(process);
  }
}

void DataHost::Restore(const wire::store::ReadData& record) {
  budget_.Count(record.record);
  CountMemory();
  dispatcher_.Restore(record.at, record.record, record.unfit);
}

void DataHost::SetAside(std::function<absl::Status()> refusal) {
  dispatcher_.SetAside(std::move(refusal));
  budget_.Clear();
  CountMemory();
}

std::vector<dispatch::TimedRecord> DataHost::Snapshot() const {
  if (!dispatcher_.Refused().ok()) return {};
  return dispatcher_->Snapshot();
}

void DataHost::Resume() {
  Handle(dispatch::Restored{});
  // Who died while there was no server.
  for (const dispatch::ConsumerProcess& one : dispatcher_->Processes()) ends_.LinkEnded(one);
}

dispatch::View DataHost::View() const { return dispatcher_->GetView(runtime::MonotonicNow()); }

void DataHost::Stop() {
  gate_.StopKeeping();
  backlog_.StopWaiting();
  Handle(dispatch::Stop{});
  backlog_.TakeUpAll();
  views_.AnswerAll();
}

bool DataHost::Handle(dispatch::Event event, CallId asked) {
  dispatch::Effects effects = dispatcher_.Handle(std::move(event));
  counters_.records += effects.records.size();
  for (const auto& record : effects.records) budget_.Count(record);
  CountMemory();
  views_.NoteChange();
  const bool refused = std::any_of(
      effects.replies.begin(), effects.replies.end(),
      [&](const dispatch::Reply& reply) { return reply.call == asked && reply.error != nullptr; });
  gate_.Settle(std::move(effects));
  return !refused;
}

void DataHost::CarryOut(const dispatch::Effects& effects, bool durable) {
  for (const dispatch::Reply& reply : effects.replies) {
    std::optional<DataCall> call = calls_.Close(reply.call);
    if (!call) continue;
    if (!durable) {
      call->responder.Fail(ServerEnds());
    } else if (reply.error != nullptr) {
      ++counters_.refused;
      call->responder.Fail(native::StatusOf(*reply.error));
    } else if (const auto* registered = std::get_if<dispatch::DatasetRegistered>(&reply.answer)) {
      call->responder.Answer(native::Encode(
          native::RegisterDatasetReply{.dataset = registered->dataset.value(),
                                       .name = registered->name,
                                       .identity = std::move(call->identity),
                                       .element_spec = std::move(call->element_spec)}));
    } else {
      if (const auto* opened = std::get_if<dispatch::IterationOpened>(&reply.answer)) {
        if (calls_.HasLink(call->link)) {
          ConsumerSpeaks(call->link, {opened->iteration, opened->consumer});
          ends_.Opened(opened->iteration, opened->consumer);
        }
      }
      call->responder.Answer(native::EncodeAnswer(reply.answer));
    }
  }
  if (!durable) return;
  for (const dispatch::LogEntry& entry : effects.log) {
    log_.Pass(runtime::MonotonicNow(), entry);
  }
}

}  // namespace lockstep::server
