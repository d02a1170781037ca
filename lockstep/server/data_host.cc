#include "lockstep/server/data_host.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/link/kinds.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/server/data_shape.h"
#include "lockstep/server/entries.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/data_view.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/unknown_request.h"
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
// What a worker that is known costs, and a request that is parked.
constexpr size_t kWorkerBytes = 2048;
constexpr size_t kCallBytes = 512;
// What an iteration costs that is opened, with a consumer.
constexpr size_t kOpenBytes = 8192;
// A snapshot of the journal has all of them once more.
constexpr size_t kCopiesKept = 2;

// Of a dispatcher that does not know which ids others have had.
int64_t FirstIdOfNone() { return static_cast<int64_t>(runtime::RandomNumber() >> 32) << 20; }

dispatch::Options Completed(dispatch::Options options, bool keeps) {
  options.make_shape = MakeDataShape;
  options.service = runtime::RandomNumber() | 1;
  if (!keeps) options.first_id = FirstIdOfNone();
  return options;
}

absl::Status ServerEnds() {
  return native::WithReason(
      absl::UnavailableError("the server cannot write its state and is shutting down: this request "
                             "may or may not have taken effect; retry when the server is back"),
      "service_stopped");
}

}  // namespace

// A definition that is to be registered, looked at.
struct DataHost::Checked {
  absl::Status status;
  dispatch::RegisterDataset event;
};

DataHost::DataHost(runtime::Loop& loop, dispatch::Options options, bool keeps, CommitQueue& commits,
                   size_t journal_queue_bytes_max, runtime::MemoryAccount& memory, Tell tell)
    : loop_(loop),
      commits_(commits),
      memory_(memory),
      tell_(std::move(tell)),
      definition_bytes_max_(options.definition_bytes_max),
      journal_queue_bytes_max_(journal_queue_bytes_max),
      dispatcher_options_(Completed(std::move(options), keeps)),
      dispatcher_(dispatcher_options_),
      timer_(loop),
      watch_(loop),
      share_(&memory, "the data service", "datasets"),
      iterations_share_(&memory, "the data service", "iterations and consumers"),
      view_timer_(loop),
      notices_(kNotices, kNoticesInterval) {}

DataHost::~DataHost() = default;

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
  if (!HasRoomFor(call, *event)) return;
  // Who was refused does not speak for the worker or consumer that it names.
  auto accepted = then(*event);
  if (Handle(*std::move(event), call)) accepted();
}

void DataHost::Take(link::Request request, link::Responder responder) {
  if (absl::Status refusal = Refusal(); !refusal.ok()) {
    ++counters_.refused;
    return responder.Fail(refusal);
  }
  if (MustWait(request)) return Wait(std::move(request), std::move(responder));
  TakeUp(std::move(request), std::move(responder));
}

bool DataHost::Crowded() const {
  return keeps_ && commits_.queued_bytes() >= journal_queue_bytes_max_ && !commits_.idle();
}

bool DataHost::MustWait(const link::Request& request) const {
  return request.payload.size() > kSmallRequestBytes && Crowded();
}

void DataHost::Wait(link::Request request, link::Responder responder) {
  const size_t bytes = request.payload.size();
  if (waiting_bytes_ + bytes > journal_queue_bytes_max_ && !waiting_.empty()) {
    ++counters_.refused;
    return responder.Fail(native::WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "the disk cannot keep up: ", commits_.queued_bytes(), " bytes are queued, plus ",
            waiting_bytes_, " of the data service (journal_queue_bytes_max ",
            journal_queue_bytes_max_, "); nothing was changed, retry later")),
        dispatch::reason::kLimitReached));
  }
  waiting_bytes_ += bytes;
  // Their texts are the link's, which may be gone by then.
  request.who = {};
  request.peer = {};
  waiting_.push_back({std::move(request), std::move(responder)});
  CountMemory();
  if (waiting_.size() == 1) AwaitDisk();
}

// When all that was handed in until now is durable, there may be room.
void DataHost::AwaitDisk() {
  commits_.Follow([this, alive = std::weak_ptr(alive_)](bool durable) {
    if (alive.expired()) return;
    while (!waiting_.empty() && (!durable || !Crowded())) TakeUpFirst();
    if (!waiting_.empty()) AwaitDisk();
  });
}

void DataHost::TakeUpFirst() {
  Waiting first = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= first.request.payload.size();
  CountMemory();
  TakeUp(std::move(first.request), std::move(first.responder));
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
      Handle(dispatch::GetDataset{.call = Open(request, std::move(responder)),
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
    case native::KindOf<native::WorkerPoll>::kKind:
      ++counters_.polls_of_workers;
      return TakeAs<native::WorkerPoll>(request, std::move(responder),
                                        [&](const dispatch::WorkerPoll& poll) {
                                          return [this, link = request.link, worker = poll.worker] {
                                            link_of_worker_[worker] = link;
                                            speakers_[link].workers.insert(worker);
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
  const CallId call = Open(request, std::move(responder));
  const size_t bytes = message->definition.data.size();
  // Before it is looked at, which costs more than its bytes.
  if (bytes > definition_bytes_max_) {
    return Refuse(
        call, native::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                     "the definition has ", bytes,
                                     " bytes (definition_bytes_max: ", definition_bytes_max_, ")")),
                                 dispatch::reason::kLimitReached));
  }
  if (!HasRoom(call, bytes)) return;
  if (checked_bytes_ > 0 && checked_bytes_ + bytes > kCheckedBytesMax) {
    return Refuse(call, native::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                               "definitions of ", checked_bytes_,
                                               " bytes are being checked already ",
                                               "(definitions_checked_bytes_max: ", kCheckedBytesMax,
                                               "); nothing was changed, try again later")),
                                           dispatch::reason::kLimitReached));
  }
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
  checked_bytes_ += bytes;
  CountMemory();
  checker_.Push(
      [this, alive = std::weak_ptr(alive_), call, bytes, check = std::move(check)]() mutable {
        loop_.Post([this, alive = std::move(alive), call, bytes, checked = check()]() mutable {
          if (alive.expired()) return;
          checked_bytes_ -= bytes;
          CountMemory();
          Registered(call, std::move(checked));
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

bool DataHost::HasRoom(CallId call, size_t bytes) {
  // As it came, as it is kept, and as an entry of the journal.
  const size_t copies = keeps_ && commits_.keeps() ? 1 + kCopiesKept : 2;
  if (memory_.HasRoom(copies * bytes)) return true;
  RefuseForMemory(call, copies * bytes);
  return false;
}

bool DataHost::HasRoomFor(CallId call, const dispatch::OpenIteration& request) {
  // Who goes on where it was is no new work.
  const bool comes_back = !request.have.empty() || request.from.has_value();
  if (comes_back && memory_.HasReserve()) return true;
  return HasRoom(call, kOpenBytes + request.spec.cursor.size());
}

bool DataHost::HasRoomFor(CallId call, const dispatch::WorkerPoll& request) {
  size_t manifests = 0;
  for (const dispatch::ResolveReport& each : request.resolved) manifests += each.manifest.size();
  if (manifests > 0) return HasRoom(call, manifests);
  // One that comes back after its link broke is not known here, and no new work.
  if (link_of_worker_.contains(request.worker) || memory_.HasReserve()) return true;
  RefuseForMemory(call, kWorkerBytes);
  return false;
}

void DataHost::RefuseForMemory(CallId call, size_t bytes) {
  Refuse(call, native::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                      memory_.Refusal(bytes), "; nothing was changed")),
                                  "memory_max"));
}

void DataHost::CountMemory() {
  const size_t copies = keeps_ && commits_.keeps() ? kCopiesKept : 1;
  share_.Set(copies * kept_.datasets() + checked_bytes_ + waiting_bytes_ +
             (view_ ? view_->size() : 0));
  iterations_share_.Set(copies * kept_.iterations() + link_of_worker_.size() * kWorkerBytes +
                        calls_.size() * kCallBytes);
}

void DataHost::AskView(Viewed viewed) {
  viewers_.push_back(std::move(viewed));
  if (viewers_.size() > 1 || making_) return;
  const Time now = runtime::MonotonicNow();
  if (now >= next_view_ || (view_is_current_ && view_ != nullptr)) return MakeView();
  view_timer_.Arm(next_view_, [this] { MakeView(); });
}

void DataHost::MakeView() {
  if (making_ || viewers_.empty()) return;
  // They may ask again at once.
  std::vector<Viewed> all = std::exchange(viewers_, {});
  if (view_is_current_ && view_ != nullptr && runtime::MonotonicNow() < next_view_) {
    const SharedView view = view_;
    for (Viewed& each : all) each(view);
    return;
  }
  making_.emplace();
  making_->viewers = std::move(all);
  if (view_ != nullptr) making_->bytes.reserve(view_->size());
  view_is_current_ = true;
  runtime::RunInTurns(loop_, [this, alive = std::weak_ptr(alive_)] {
    return !alive.expired() && making_ && StepOfView();
  });
}

bool DataHost::StepOfView() {
  const Time begin = runtime::MonotonicNow();
  dispatch::View part;
  const bool more = dispatcher_->ReadView(begin, making_->cursor, part);
  // Encoded, a message of some of the rows is what they add to one that has the others.
  making_->bytes += native::Encode(native::FromDataView(part));
  making_->spent += runtime::MonotonicNow() - begin;
  if (!more) FinishView();
  return more;
}

void DataHost::FinishView() {
  ViewMaking made = *std::exchange(making_, std::nullopt);
  view_ = std::make_shared<const std::string>(std::move(made.bytes));
  next_view_ = runtime::MonotonicNow() + std::max(kViewEvery, kViewPart * made.spent);
  CountMemory();
  if (!viewers_.empty() && view_is_current_) {
    std::move(viewers_.begin(), viewers_.end(), std::back_inserter(made.viewers));
    viewers_.clear();
  }
  if (!viewers_.empty()) view_timer_.Arm(next_view_, [this] { MakeView(); });
  const SharedView view = view_;
  for (Viewed& each : made.viewers) each(view);
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
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
    return each.request.link == link && each.request.id == id;
  });
  if (waits != waiting_.end()) {
    waits->responder.Fail(
        native::WithReason(absl::CancelledError("the caller has stopped waiting"), "cancelled"));
    waiting_bytes_ -= waits->request.payload.size();
    waiting_.erase(waits);
    return CountMemory();
  }
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
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto waits = next++;
    if (waits->request.link != link) continue;
    waits->responder.Answer({});  // swallowed
    waiting_bytes_ -= waits->request.payload.size();
    waiting_.erase(waits);
  }
  CountMemory();
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
    const auto process = dispatcher_->ProcessOf(consumer.first, consumer.second);
    if (process) WatchConsumer(*process);
  }
}

void DataHost::ConsumerOpened(const Call& call, const dispatch::IterationOpened& opened) {
  if (!speakers_.contains(call.link)) return;
  ConsumerSpeaks(call.link, {opened.iteration, opened.consumer});
  // A new process may have the number of one that ended.
  const auto process = dispatcher_->ProcessOf(opened.iteration, opened.consumer);
  if (process) ended_processes_.erase({process->host, process->pid});
}

void DataHost::ConsumerSpeaks(link::LinkId link, const ConsumerKey& key) {
  link_of_consumer_[key] = link;
  speakers_[link].consumers.insert(key);
  watch_.Forget(static_cast<uint64_t>(key.second.value()));
  if (lost_members_.empty()) return;
  const auto process = dispatcher_->ProcessOf(key.first, key.second);
  if (process) lost_members_.erase({process->host, process->pid});
}

void DataHost::WatchConsumer(const dispatch::ConsumerProcess& process) {
  const dispatch::ConsumerEnded fact{process.iteration, process.consumer, process.life};
  const std::pair<std::string, int64_t> who = {process.host, process.pid};
  if (ended_processes_.erase(who) + lost_members_.erase(who) > 0) {
    Handle(fact);
    return;
  }
  watch_.Watch(static_cast<uint64_t>(process.consumer.value()), process.machine, process.pid,
               process.started, [this, fact] { Handle(fact); });
}

void DataHost::ProcessEnded(const std::string& host, int64_t pid) {
  TakeEnd(host, pid, ended_processes_);
}

void DataHost::MemberLost(const std::string& host, int64_t pid) {
  TakeEnd(host, pid, lost_members_);
}

void DataHost::TakeEnd(const std::string& host, int64_t pid,
                       std::set<std::pair<std::string, int64_t>>& of_linked) {
  for (const dispatch::ConsumerProcess& one : dispatcher_->Processes()) {
    if (one.host != host || one.pid != pid) continue;
    // Its link will end, unless another process has its number by now.
    if (link_of_consumer_.contains({one.iteration, one.consumer})) {
      if (of_linked.size() < kEndedProcessesMax) of_linked.emplace(host, pid);
    } else {
      Handle(dispatch::ConsumerEnded{one.iteration, one.consumer, one.life});
    }
  }
}

void DataHost::Restore(const wire::store::ReadData& record) {
  kept_.Count(record.record);
  CountMemory();
  dispatcher_->Restore(record.at, record.record, record.unfit);
}

void DataHost::SetAside(std::function<absl::Status()> refusal) {
  refusal_ = std::move(refusal);
  dispatch::Options options = dispatcher_options_;
  // No id stands for two things, though those that it had are not known.
  options.first_id = FirstIdOfNone();
  dispatcher_.emplace(std::move(options));
  kept_ = {};
  CountMemory();
}

std::vector<dispatch::TimedRecord> DataHost::Snapshot() const {
  if (!Refusal().ok()) return {};
  return dispatcher_->Snapshot();
}

void DataHost::Resume() {
  Handle(dispatch::Restored{});
  // Who died while there was no server.
  for (const dispatch::ConsumerProcess& one : dispatcher_->Processes()) WatchConsumer(one);
}

dispatch::View DataHost::View() const { return dispatcher_->GetView(runtime::MonotonicNow()); }

void DataHost::Stop() {
  keeps_ = false;
  Handle(dispatch::Stop{});
  while (!waiting_.empty()) TakeUpFirst();
  while (making_ || !viewers_.empty()) {
    if (!making_) MakeView();
    while (making_) StepOfView();
  }
}

bool DataHost::Handle(dispatch::Event event, CallId asked) {
  dispatch::Effects effects;
  dispatcher_->Handle(runtime::MonotonicNow(), std::move(event), effects);
  ArmTimer();
  counters_.records += effects.records.size();
  for (const auto& record : effects.records) kept_.Count(record);
  CountMemory();
  view_is_current_ = false;
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
  const Time next = dispatcher_->NextDeadline();
  // A timer that is armed for earlier is left: it comes for nothing once.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.Arm(next, [this] {
    armed_for_ = Time::Infinite();
    Handle(dispatch::DeadlineReached{});
  });
}

}  // namespace lockstep::server
