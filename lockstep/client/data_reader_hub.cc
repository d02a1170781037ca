#include "lockstep/client/data_reader_hub.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/client/settings.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/process_identity.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep {
namespace {

namespace native = wire::native;
using client::LoopDriver;
using runtime::MonotonicNow;

// What a reader that closes waits for the server to hear of it.
constexpr absl::Duration kCloseTimeout = absl::Seconds(2);
// Of one request to a worker: `read_elements_max`, `one_read_bytes_max`.
constexpr int64_t kReadElementsMax = 4096;
constexpr uint64_t kOneReadBytesMax = uint64_t{1} << 20;
static_assert(kOneReadBytesMax < kMessageBytesMax);

absl::Status StatusOf(const dispatch::ErrorPtr& error) { return native::StatusOf(*error); }

std::vector<ReadMark> MarksOf(const std::vector<dispatch::LaneAck>& acks) {
  std::vector<ReadMark> marks;
  for (const dispatch::LaneAck& ack : acks) {
    marks.push_back({ack.lane.value(), ack.seq, ack.elements, ack.done});
  }
  return marks;
}

}  // namespace

// --- Opening ---

DataReader::Impl::Impl(DataReaderOptions options, std::shared_ptr<link::Servers> servers)
    : options_(std::move(options)),
      shell_(
          "one that reads a dataset: the reader stays its parent's; open one here if this "
          "process shall read too"),
      dispatcher_(std::make_shared<client::DispatcherLink>(shell_.loop().io(), std::move(servers))),
      workers_(
          std::make_shared<client::WorkerLinks>(shell_.loop().io(), options_.worker_links_max)),
      handed_(/*keeps_places=*/!options_.acknowledge_by_itself) {
  identity_.consumer = options_.consumer;
  if (identity_.consumer.empty()) {
    identity_.consumer = absl::StrFormat("%s-%d-%08x", runtime::HostName(), ::getpid(),
                                         static_cast<uint32_t>(runtime::RandomNumber()));
  }
}

absl::StatusOr<std::shared_ptr<DataReader::Impl>> DataReader::Impl::Open(
    DataReaderOptions options) {
  if (options.address.empty()) {
    options.address = client::ProcessEnvironment("LOCKSTEP_COORDINATOR").value_or("127.0.0.1:7070");
  }
  auto servers = client::ServersAt(options.address);
  if (!servers.ok()) return servers.status();
  const Time deadline = MonotonicNow() + options.timeout;
  std::shared_ptr<Impl> impl(new Impl(std::move(options), *std::move(servers)));
  const auto registered = impl->Register(deadline);
  const absl::Status status =
      registered.ok() ? impl->OpenIteration(*registered, deadline) : registered.status();
  if (!status.ok()) {
    impl->Close();
    return status;
  }
  return impl;
}

absl::StatusOr<DataReader::Impl::Registered> DataReader::Impl::Register(Time deadline) {
  const auto call = [&]<class Message, class Reply>(const Message& message,
                                                    Reply /*type*/) -> absl::StatusOr<Registered> {
    auto answer = dispatcher_->Call(shell_, native::KindOf<Message>::kKind, native::Encode(message),
                                    deadline, options_.interrupted);
    if (!answer.ok()) return answer.status();
    auto reply = native::Decode<Reply>(*answer);
    if (!reply.ok()) return reply.status();
    return Registered{.dataset = reply->dataset,
                      .identity = reply->identity,
                      .element_spec = reply->element_spec};
  };
  if (!options_.definition.nodes.empty()) {
    return call(
        native::RegisterDataset{.name = options_.dataset,
                                .definition = {native::EncodeDefinition(options_.definition)}},
        native::RegisterDatasetReply{});
  }
  if (options_.dataset.empty()) {
    return native::WithReason(
        absl::InvalidArgumentError("which dataset? Give a definition, or the name of one that "
                                   "was registered"),
        "invalid_argument");
  }
  return call(native::GetDataset{.name = options_.dataset}, native::GetDatasetReply{});
}

dispatch::ConsumerOptions DataReader::Impl::MachineOptions(const Registered& registered) const {
  dispatch::ConsumerOptions options;
  options.spec = {.name = options_.name,
                  .repetition = options_.repetition,
                  .dataset = dispatch::DatasetId(registered.dataset),
                  .mode = static_cast<dispatch::Mode>(options_.order),
                  .sharding = static_cast<dispatch::Sharding>(options_.sharding),
                  .visitation = static_cast<dispatch::Visitation>(options_.visitation),
                  .consumers = options_.consumers,
                  .shares = options_.shares,
                  .worker_addresses = options_.worker_addresses,
                  .cursor = options_.cursor,
                  .on_lost = static_cast<dispatch::OnLost>(options_.on_lost)};
  options.consumer = identity_.consumer;
  options.life = dispatch::ConsumerLife(runtime::RandomNumber() | 1);
  options.index = options_.index;
  options.definition = registered.identity;
  options.host = runtime::HostName();
  options.pid = ::getpid();
  options.machine = runtime::ProcessMachine();
  options.started = runtime::ProcessStarted(::getpid());
  options.member = options_.member;
  options.acknowledge_by_itself = options_.acknowledge_by_itself;
  options.unacknowledged_max = std::max<int64_t>(1, options_.unacknowledged_max);
  options.unacknowledged_bytes_max = std::max<uint64_t>(1, options_.unacknowledged_bytes_max);
  for (const ReadMark& mark : options_.have) {
    options.have.push_back({.lane = dispatch::LaneId(mark.lane),
                            .seq = mark.seq,
                            .elements = mark.elements,
                            .done = mark.done});
  }
  options.rejoin = options_.rejoin;
  options.read_bytes_max = options_.read_bytes_max;
  options.read_elements_max = kReadElementsMax;
  options.one_read_bytes_max = std::min(kOneReadBytesMax, options_.read_bytes_max);
  options.give_up_after = options_.give_up_after;

  return options;
}

absl::Status DataReader::Impl::OpenIteration(const Registered& registered, Time deadline) {
  const auto done = std::make_shared<Signal>(shell_.loop());
  LoopDriver::Turn turn(shell_.loop(), *done);
  {
    const MutexLock lock(mutex_);
    LOCKSTEP_DCHECK(machine_ == nullptr);
    machine_ = std::make_unique<dispatch::ConsumerMachine>(MachineOptions(registered));
    phase_ = Opening{.done = done};
    machine_->Open(MonotonicNow(), scratch_);
    // The cursor is of something else, say: nobody was asked.
    if (machine_->failed() != nullptr) return StatusOf(machine_->failed());
    Take(scratch_, /*on_loop=*/false);
  }
  absl::Status status = shell_.Wait(turn, deadline, options_.interrupted);
  const MutexLock lock(mutex_);
  const auto opening = std::get<Opening>(std::exchange(phase_, Reading{}));
  if (!status.ok()) return status;
  if (!opening.refused.ok()) return opening.refused;
  const auto opened = machine_->opened();
  if (!opened && machine_->failed() != nullptr) return StatusOf(machine_->failed());
  if (!opened) return TimedOut(options_.timeout);
  identity_.name = opened->name;
  identity_.element_spec = registered.element_spec;
  identity_.lease_had_ended = opened->lease_had_ended;
  identity_.counted = MarksOf(opened->counted);
  return absl::OkStatus();
}

// --- Callers ---

absl::Status DataReader::Impl::CheckOpen() const {
  if (!std::holds_alternative<Closing>(phase_) && !std::holds_alternative<Ended>(phase_)) {
    return absl::OkStatus();
  }
  return native::WithReason(absl::CancelledError("the reader is closed"), "cancelled");
}

absl::Status DataReader::Impl::TimedOut(absl::Duration after) const {
  std::string what;
  if (machine_ != nullptr) what = machine_->GetView().waits_for;
  if (what.empty()) what = "an element";
  std::string text =
      absl::StrFormat("no element within %s: waits for %s", absl::FormatDuration(after), what);
  std::string_view reason = "timeout";
  if (const auto outage = dispatcher_->outage()) {
    reason = "server_unavailable";
    absl::StrAppend(
        &text, "; ", runtime::TheServer(dispatcher_->server()), " could not be reached for ",
        absl::FormatDuration(absl::Floor(MonotonicNow() - outage->since, absl::Milliseconds(100))),
        " (", std::string(outage->why.message()), ")");
  }
  absl::StrAppend(&text, "; `lockstep data --coordinator ", dispatcher_->server(),
                  "` shows workers and iterations");
  return native::WithReason(absl::DeadlineExceededError(text), reason);
}

absl::StatusOr<std::optional<DataElement>> DataReader::Impl::Next(const CallOptions& options) {
  if (!here()) return shell_.Forked();
  dispatch::AskId ask;
  Time began;
  std::shared_ptr<client::ReaderAsks::Waiter> waiter;
  {
    const MutexLock lock(mutex_);
    if (absl::Status open = CheckOpen(); !open.ok()) return open;
    ask = asks_.Begin();
    machine_->Next(MonotonicNow(), ask, scratch_);
    Take(scratch_, /*on_loop=*/false);
    if (auto answer = asks_.TakeAnswer()) return handed_.Take(*std::move(answer));
    began = MonotonicNow();
    waiter = asks_.Wait(shell_.loop());
  }
  absl::Status status;
  {
    LoopDriver::Turn turn(shell_.loop(), *waiter);
    if (turn.drives()) Drain();
    status = shell_.Wait(turn, began + options.timeout, options.interrupted);
  }
  if (!here()) return shell_.Forked();
  const MutexLock lock(mutex_);
  asks_.EndWait(ask, MonotonicNow() - began);
  if (waiter->answer) return handed_.Take(*std::move(waiter->answer));
  if (status.ok()) status = TimedOut(options.timeout);
  machine_->Cancel(MonotonicNow(), ask, scratch_);
  Take(scratch_, /*on_loop=*/false);
  return status;
}

absl::Status DataReader::Impl::Acknowledge(const ElementPlace& place) {
  if (!here()) return shell_.Forked();
  const MutexLock lock(mutex_);
  if (absl::Status open = CheckOpen(); !open.ok()) return open;
  machine_->Acknowledge(MonotonicNow(),
                        {.lane = dispatch::LaneId(place.lane),
                         .seq = place.seq,
                         .segment = place.segment,
                         .element = place.element,
                         .round = place.round,
                         .task = dispatch::TaskId(place.task)},
                        scratch_);
  Take(scratch_, /*on_loop=*/false);
  return absl::OkStatus();
}

absl::Status DataReader::Impl::AcknowledgeAll() {
  if (!here()) return shell_.Forked();
  std::map<int64_t, ElementPlace> places;
  {
    const MutexLock lock(mutex_);
    places = handed_.last_places();
  }
  for (const auto& [lane, place] : places) {
    if (absl::Status status = Acknowledge(place); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DataReader::Impl::Cursor() const {
  if (!here()) return shell_.Forked();
  const MutexLock lock(mutex_);
  dispatch::ErrorPtr why;
  auto cursor = machine_->Cursor(why);
  if (!cursor) return StatusOf(why);
  return *std::move(cursor);
}

std::vector<ReadMark> DataReader::Impl::Marks() const {
  if (!here()) return {};
  const MutexLock lock(mutex_);
  return MarksOf(machine_->Acks());
}

DataReaderView DataReader::Impl::View() const {
  if (!here()) return {.state = "forked"};
  const MutexLock lock(mutex_);
  const dispatch::ConsumerMachine::View view = machine_->GetView();
  const client::WorkerLinks::Totals read = workers_->totals();
  return {.state = view.state,
          .waits_for = view.waits_for,
          .elements = handed_.elements(),
          .bytes = handed_.bytes(),
          .round = view.round,
          .buffered_bytes = view.buffered_bytes,
          .reads = read.reads,
          .stalls = asks_.stalls(),
          .stalled = asks_.stalled(),
          .dropped = view.dropped,
          .shared_elements = read.shared_elements,
          .unacknowledged = view.unacknowledged,
          .unacknowledged_bytes = view.unacknowledged_bytes};
}

void DataReader::Impl::Close() {
  if (!here()) return;
  const auto closed = std::make_shared<Signal>(shell_.loop());
  bool done = false;
  {
    const MutexLock lock(mutex_);
    if (!CheckOpen().ok()) return;
    phase_ = Closing{.machine_closed = closed};
    if (machine_ != nullptr) {
      machine_->Close(MonotonicNow(), scratch_);
      Take(scratch_, /*on_loop=*/false);
    }
    done = machine_ == nullptr || closed->given;
  }
  if (!done) {
    LoopDriver::Turn turn(shell_.loop(), *closed);
    (void)shell_.Wait(turn, MonotonicNow() + kCloseTimeout, nullptr);
  }
  shell_.loop().Post([self = shared_from_this()] { self->EndOnLoop(); });
}

// --- The machine's wishes ---

void DataReader::Impl::Take(dispatch::ConsumerEffects& effects, bool on_loop) {
  for (dispatch::HandOut& out : effects.handed_out) {
    const auto waiter = asks_.Give(std::move(out));
    if (waiter == nullptr) continue;
    if (on_loop) {
      waiter->Wake();
    } else {
      shell_.loop().Post([waiter] { waiter->Wake(); });
    }
  }
  const bool wants_loop = !effects.requests.empty() || !effects.reads.empty();
  std::move(effects.requests.begin(), effects.requests.end(),
            std::back_inserter(for_loop_.requests));
  std::move(effects.reads.begin(), effects.reads.end(), std::back_inserter(for_loop_.reads));
  if (const auto* closing = std::get_if<Closing>(&phase_);
      closing != nullptr && effects.closed &&
      !std::exchange(closing->machine_closed->given, true)) {
    shell_.loop().Post([waiter = closing->machine_closed] { waiter->Wake(); });
  }
  effects.handed_out.clear();
  effects.requests.clear();
  effects.reads.clear();
  effects.cancelled_reads.clear();
  effects.log.clear();
  effects.closed = false;
  if (on_loop || (!wants_loop && !shell_.RingsTooLate(machine_->NextDeadline()))) return;
  if (std::exchange(for_loop_.posted, true)) return;
  shell_.loop().Post([self = shared_from_this()] { self->Drain(); });
}

void DataReader::Impl::Drain() {
  ForLoop take;
  Time due;
  {
    const MutexLock lock(mutex_);
    if (std::holds_alternative<Ended>(phase_)) return;
    take = std::exchange(for_loop_, {});
    due = machine_->NextDeadline();
  }
  for (dispatch::SendToDispatcher& request : take.requests) Send(std::move(request));
  for (dispatch::SendRead& read : take.reads) {
    workers_->Read(std::move(read), [weak = weak_from_this()](dispatch::ConsumerEvent event) {
      if (const auto self = weak.lock()) self->Feed(std::move(event));
    });
  }
  shell_.ArmTimer(due, weak_from_this(), [](Impl& self) { self.Ring(); });
}

void DataReader::Impl::Ring() {
  {
    const MutexLock lock(mutex_);
    if (std::holds_alternative<Ended>(phase_)) return;
    machine_->ReachDeadline(MonotonicNow(), scratch_);
    Take(scratch_, /*on_loop=*/true);
  }
  Drain();
}

void DataReader::Impl::Feed(dispatch::ConsumerEvent event) {
  {
    const MutexLock lock(mutex_);
    machine_->Handle(MonotonicNow(), std::move(event), scratch_);
    Take(scratch_, /*on_loop=*/true);
    if (const auto* opening = std::get_if<Opening>(&phase_);
        opening != nullptr && !opening->done->given &&
        (machine_->opened() || machine_->failed() != nullptr || !opening->refused.ok())) {
      opening->done->given = true;
      opening->done->Wake();
    }
  }
  Drain();
}

void DataReader::Impl::Send(dispatch::SendToDispatcher request) {
  const bool opens = std::holds_alternative<dispatch::OpenIteration>(request.what);
  dispatcher_->Send(std::move(request),
                    [weak = weak_from_this(), opens](dispatch::DispatcherAnswered event) {
                      const auto self = weak.lock();
                      if (self == nullptr) return;
                      // Also an answer that cannot be read: nobody waits for another one.
                      if (opens && event.error != nullptr && !event.unavailable) {
                        const MutexLock lock(self->mutex_);
                        auto* opening = std::get_if<Opening>(&self->phase_);
                        if (opening != nullptr) opening->refused = StatusOf(event.error);
                      }
                      self->Feed(std::move(event));
                    });
}

void DataReader::Impl::EndOnLoop() {
  {
    const MutexLock lock(mutex_);
    LOCKSTEP_DCHECK(std::holds_alternative<Closing>(phase_));
    phase_ = Ended{};
  }
  shell_.CancelTimer();
  dispatcher_->End();
  workers_->End();
}

}  // namespace lockstep
