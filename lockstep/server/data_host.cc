#include "lockstep/server/data_host.h"

#include <algorithm>
#include <random>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/journal/journal.h"
#include "lockstep/link/kinds.h"
#include "lockstep/plan/definition.h"
#include "lockstep/server/data_shape.h"
#include "lockstep/server/entries.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/data_view.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/store/data_entry.h"

namespace lockstep::server {
namespace {

namespace native = wire::native;

// Definitions up to here are checked where they are taken: that costs less than a millisecond.
constexpr size_t kCheckedAtOnceBytes = size_t{64} << 10;
// Events, since whoever reaches the port can cause them.
constexpr int kNotices = 100;
constexpr absl::Duration kNoticesInterval = absl::Seconds(10);
constexpr size_t kEndedProcessesMax = 1000;

dispatch::Options Completed(dispatch::Options options, bool keeps) {
  std::random_device random;
  options.make_shape = MakeDataShape;
  options.service = (uint64_t{random()} << 32 | random()) | 1;
  if (!keeps) options.first_id = int64_t{random()} << 20;
  return options;
}

absl::Status ServerEnds() {
  return native::WithReason(
      absl::UnavailableError("the server cannot write its state and ends: nobody knows whether "
                             "this took effect; ask again when it is back"),
      "service_stopped");
}

}  // namespace

// A definition that is to be registered, looked at.
struct DataHost::Checked {
  absl::Status status;
  dispatch::RegisterDataset event;
};

DataHost::DataHost(runtime::Loop& loop, dispatch::Options options, bool keeps, CommitQueue& commits,
                   Tell tell)
    : loop_(loop),
      commits_(commits),
      tell_(std::move(tell)),
      dispatcher_(Completed(std::move(options), keeps)),
      timer_(loop),
      watch_(loop),
      notices_(kNotices, kNoticesInterval) {}

DataHost::~DataHost() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    work_.clear();
  }
  changed_.notify_all();
  if (checker_.joinable()) checker_.join();
}

bool DataHost::Takes(link::RequestKind kind) {
  return kind >= native::KindOf<native::RegisterDataset>::kKind &&
         kind <= native::KindOf<native::DataStatus>::kKind;
}

template <class Message, class Then>
void DataHost::TakeAs(const link::Request& request, link::Responder responder, Then then) {
  auto message = native::Decode<Message>(request.payload);
  if (!message.ok()) {
    ++counters_.refused;
    return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
  }
  const CallId call = Open(request, std::move(responder));
  auto event = native::EventOf(*message, call);
  if (!event.ok()) return Refuse(call, native::WithReason(event.status(), "invalid_argument"));
  // Who was refused does not speak for the worker or consumer that it names.
  auto accepted = then(*event);
  if (Handle(*std::move(event), call)) accepted();
}

void DataHost::Take(link::Request request, link::Responder responder) {
  switch (request.kind) {
    case native::KindOf<native::RegisterDataset>::kKind:
      return Register(request, std::move(responder));
    case native::KindOf<native::GetDataset>::kKind: {
      auto message = native::Decode<native::GetDataset>(request.payload);
      if (!message.ok()) {
        return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
      }
      Handle(dispatch::GetDataset{.call = Open(request, std::move(responder)),
                                  .dataset = dispatch::DatasetId(message->dataset),
                                  .name = std::move(message->name)});
      return;
    }
    case native::KindOf<native::DataStatus>::kKind: {
      auto answer = native::Encode(native::FromDataView(View()));
      return commits_.Follow(
          [responder = std::move(responder), answer = std::move(answer)](bool durable) mutable {
            durable ? responder.Answer(std::move(answer)) : responder.Fail(ServerEnds());
          });
    }
    case native::KindOf<native::OpenIteration>::kKind:
      return TakeAs<native::OpenIteration>(request, std::move(responder),
                                           [](const auto&) { return [] {}; });
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
              link_of_consumer_.erase(key);
              speakers_[link].consumers.erase(key);
            };
          });
    default:
      ++counters_.polls_of_workers;
      return TakeAs<native::WorkerPoll>(request, std::move(responder),
                                        [&](const dispatch::WorkerPoll& poll) {
                                          return [this, link = request.link, worker = poll.worker] {
                                            link_of_worker_[worker] = link;
                                            speakers_[link].workers.insert(worker);
                                          };
                                        });
  }
}

void DataHost::Register(const link::Request& request, link::Responder responder) {
  auto message = native::Decode<native::RegisterDataset>(request.payload);
  if (!message.ok()) {
    return responder.Fail(native::WithReason(message.status(), "invalid_argument"));
  }
  const CallId call = Open(request, std::move(responder));
  const size_t bytes = message->definition.data.size();
  auto check = [call, message = *std::move(message)]() mutable {
    Checked checked;
    auto definition = native::DecodeDefinition(message.definition.data);
    if (!definition.ok()) {
      checked.status = native::WithReason(definition.status(), "definition_invalid");
      return checked;
    }
    const auto spec = plan::Check(*definition);
    if (!spec.ok()) {
      checked.status = spec.status();
      return checked;
    }
    checked.event = {.call = call,
                     .name = std::move(message.name),
                     .identity = plan::Identity(*definition),
                     .definition = std::move(message.definition.data),
                     .element_spec = plan::ToText(*spec),
                     .needs_manifest = plan::NeedsManifest(*definition)};
    return checked;
  };
  if (bytes <= kCheckedAtOnceBytes) return Registered(call, check());
  OffLoop([this, alive = std::weak_ptr(alive_), call, check = std::move(check)]() mutable {
    loop_.Post([this, alive = std::move(alive), call, checked = check()]() mutable {
      if (!alive.expired()) Registered(call, std::move(checked));
    });
  });
}

void DataHost::Registered(CallId call, Checked checked) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;  // whoever asked has gone
  if (!checked.status.ok()) return Refuse(call, checked.status);
  found->second.identity = checked.event.identity;
  found->second.element_spec = checked.event.element_spec;
  Handle(std::move(checked.event));
}

CallId DataHost::Open(const link::Request& request, link::Responder responder) {
  const CallId call(++last_call_);
  calls_.emplace(call, Call{.responder = std::move(responder),
                            .link = request.link,
                            .identity = {},
                            .element_spec = {}});
  speakers_[request.link].calls[request.id] = call;
  return call;
}

std::optional<DataHost::Call> DataHost::Close(CallId call) {
  auto node = calls_.extract(call);
  if (node.empty()) return std::nullopt;
  const auto speaker = speakers_.find(node.mapped().link);
  if (speaker != speakers_.end()) speaker->second.calls.erase(node.mapped().responder.id());
  return std::move(node.mapped());
}

void DataHost::Refuse(CallId call, const absl::Status& why) {
  ++counters_.refused;
  if (auto open = Close(call)) open->responder.Fail(why);
}

void DataHost::Cancelled(link::LinkId link, uint64_t id) {
  const auto speaker = speakers_.find(link);
  if (speaker == speakers_.end()) return;
  const auto call = speaker->second.calls.find(id);
  if (call == speaker->second.calls.end()) return;
  const CallId gone = call->second;
  Refuse(gone, native::WithReason(absl::CancelledError("the caller does not wait any more"),
                                  "cancelled"));
  Handle(dispatch::CallLeft{gone});
}

void DataHost::Ended(link::LinkId link) {
  auto node = speakers_.extract(link);
  if (node.empty()) return;
  const Speaker& speaker = node.mapped();
  for (const auto& [id, call] : speaker.calls) {
    // Its responder swallows what it is given: the link is gone.
    if (auto open = calls_.extract(call); !open.empty()) open.mapped().responder.Answer({});
    Handle(dispatch::CallLeft{call});
  }
  // Who has spoken over another link since is not concerned.
  for (const dispatch::WorkerId worker : speaker.workers) {
    const auto at = link_of_worker_.find(worker);
    if (at == link_of_worker_.end() || at->second != link) continue;
    link_of_worker_.erase(at);
    Handle(dispatch::WorkerLinkEnded{worker});
  }
  for (const ConsumerKey& consumer : speaker.consumers) {
    const auto at = link_of_consumer_.find(consumer);
    if (at == link_of_consumer_.end() || at->second != link) continue;
    link_of_consumer_.erase(at);
    Handle(dispatch::ConsumerLinkEnded{consumer.first, consumer.second});
    const auto process = dispatcher_.ProcessOf(consumer.first, consumer.second);
    if (process) WatchConsumer(*process);
  }
}

void DataHost::ConsumerOpened(const Call& call, const dispatch::IterationOpened& opened) {
  if (!speakers_.contains(call.link)) return;
  ConsumerSpeaks(call.link, {opened.iteration, opened.consumer});
  // A new process may have the number of one that ended.
  const auto process = dispatcher_.ProcessOf(opened.iteration, opened.consumer);
  if (process) ended_processes_.erase({process->host, process->pid});
}

void DataHost::ConsumerSpeaks(link::LinkId link, const ConsumerKey& key) {
  link_of_consumer_[key] = link;
  speakers_[link].consumers.insert(key);
  watch_.Forget(static_cast<uint64_t>(key.second.value()));
}

void DataHost::WatchConsumer(const dispatch::ConsumerProcess& process) {
  const dispatch::ConsumerEnded fact{process.iteration, process.consumer, process.life};
  if (ended_processes_.erase({process.host, process.pid}) > 0) {
    Handle(fact);
    return;
  }
  watch_.Watch(static_cast<uint64_t>(process.consumer.value()), process.machine, process.pid,
               process.started, [this, fact] { Handle(fact); });
}

void DataHost::ProcessEnded(const std::string& host, int64_t pid) {
  for (const dispatch::ConsumerProcess& one : dispatcher_.Processes()) {
    if (one.host != host || one.pid != pid) continue;
    // Its link will end, unless another process has its number by now.
    if (link_of_consumer_.contains({one.iteration, one.consumer})) {
      if (ended_processes_.size() < kEndedProcessesMax) ended_processes_.emplace(host, pid);
    } else {
      Handle(dispatch::ConsumerEnded{one.iteration, one.consumer, one.life});
    }
  }
}

void DataHost::Restore(const dispatch::TimedRecord& record) {
  dispatcher_.Restore(record.at, record.record);
}

void DataHost::Resume() {
  Handle(dispatch::Restored{});
  // Who died while there was no server.
  for (const dispatch::ConsumerProcess& one : dispatcher_.Processes()) WatchConsumer(one);
}

dispatch::View DataHost::View() const { return dispatcher_.GetView(runtime::MonotonicNow()); }

void DataHost::Stop() {
  keeps_ = false;
  Handle(dispatch::Stop{});
}

bool DataHost::Handle(dispatch::Event event, CallId asked) {
  dispatch::Effects effects;
  dispatcher_.Handle(runtime::MonotonicNow(), std::move(event), effects);
  ArmTimer();
  counters_.records += effects.records.size();
  const bool refused = std::any_of(
      effects.replies.begin(), effects.replies.end(),
      [&](const dispatch::Reply& reply) { return reply.call == asked && reply.error != nullptr; });
  Settle(std::move(effects));
  return !refused;
}

void DataHost::Settle(dispatch::Effects effects) {
  if (effects.records.empty() || !keeps_ || !commits_.keeps()) {
    if (commits_.idle()) return CarryOut(effects, /*durable=*/true);
    if (effects.replies.empty() && effects.notices.empty()) return;
    return commits_.Follow(Later(std::move(effects)));
  }
  std::vector<std::string> entries =
      EntriesOf(absl::MakeConstSpan(effects.records), [](auto records, std::string& out) {
        return wire::store::EncodeDataRecords(absl::Now(), records, out);
      });
  effects.records.clear();
  commits_.Commit(std::move(entries), Later(std::move(effects)));
}

CommitQueue::Release DataHost::Later(dispatch::Effects effects) {
  return [this, alive = std::weak_ptr(alive_), effects = std::move(effects)](bool durable) {
    if (!alive.expired()) CarryOut(effects, durable);
  };
}

void DataHost::CarryOut(const dispatch::Effects& effects, bool durable) {
  for (const dispatch::Reply& reply : effects.replies) {
    std::optional<Call> call = Close(reply.call);
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
        ConsumerOpened(*call, *opened);
      }
      call->responder.Answer(native::EncodeAnswer(reply.answer));
    }
  }
  if (!durable) return;
  for (const dispatch::Notice& notice : effects.notices) {
    const auto line = notices_.Pass(runtime::MonotonicNow(), notice.text);
    if (line) tell_(notice.severity, *line);
  }
}

void DataHost::ArmTimer() {
  const Time next = dispatcher_.NextDeadline();
  // A timer that is armed for earlier is left: it comes for nothing once.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.Arm(next, [this] {
    armed_for_ = Time::Infinite();
    Handle(dispatch::DeadlineReached{});
  });
}

void DataHost::OffLoop(absl::AnyInvocable<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  if (!checker_.joinable()) checker_ = std::thread([this] { RunOffLoop(); });
  changed_.notify_one();
}

void DataHost::RunOffLoop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (ends_) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace lockstep::server
