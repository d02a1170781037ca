#include "lockstep/client/data_reader_hub.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/client/settings.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/process_identity.h"
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

constexpr absl::Duration kRetryOpen = absl::Milliseconds(200);
// What a reader that closes waits for the server to hear of it.
constexpr absl::Duration kCloseTimeout = absl::Seconds(2);
// Of one request to a worker: `read_elements_max`, `one_read_bytes_max`.
constexpr int64_t kReadElementsMax = 4096;
constexpr uint64_t kOneReadBytesMax = uint64_t{1} << 20;

absl::Status StatusOf(const dispatch::ErrorPtr& error) { return native::StatusOf(*error); }

}  // namespace

// Answered once, on the loop or by the thread that waits.
class DataReader::Impl::Waiting : public LoopDriver::Waiter {
 public:
  explicit Waiting(LoopDriver& loop) : Waiter(loop) {}

  // Under the reader's mutex.
  bool done = false;
  std::optional<dispatch::HandOut> handed;
  absl::StatusOr<std::string> answer = std::string();
  bool reached = false;
};

// --- Opening ---

DataReader::Impl::Impl(DataReaderOptions options, runtime::Address address)
    : address_(std::move(address)),
      server_(runtime::ToString(address_)),
      options_(std::move(options)),
      consumer_(options_.consumer),
      shell_(
          "one that reads a dataset: the reader stays its parent's; open one here if this "
          "process shall read too"),
      workers_(
          std::make_shared<client::WorkerLinks>(shell_.loop().io(), options_.worker_links_max)) {
  if (consumer_.empty()) {
    consumer_ = absl::StrFormat("%s-%d-%08x", runtime::HostName(), ::getpid(),
                                static_cast<uint32_t>(runtime::RandomNumber()));
  }
  dispatcher_ =
      std::make_shared<client::RedialedLink>(shell_.loop().io(), address_, "lockstep reader");
}

absl::StatusOr<std::shared_ptr<DataReader::Impl>> DataReader::Impl::Open(
    DataReaderOptions options) {
  if (options.address.empty()) {
    options.address = client::ProcessEnvironment("LOCKSTEP_COORDINATOR").value_or("127.0.0.1:7070");
  }
  auto address = runtime::ParseAddress(options.address);
  if (!address.ok()) {
    return native::WithReason(absl::InvalidArgumentError(absl::StrCat(
                                  "the address of the server (`address`, LOCKSTEP_COORDINATOR): ",
                                  std::string(address.status().message()))),
                              "invalid_argument");
  }
  const Time deadline = MonotonicNow() + options.timeout;
  std::shared_ptr<Impl> impl(new Impl(std::move(options), *std::move(address)));
  absl::Status status = impl->Register(deadline);
  if (status.ok()) status = impl->OpenIteration(deadline);
  if (!status.ok()) {
    impl->Close();
    return status;
  }
  return impl;
}

absl::StatusOr<std::string> DataReader::Impl::CallServer(link::RequestKind kind,
                                                         const std::string& payload,
                                                         Time deadline) {
  absl::Status last;
  const Time began = MonotonicNow();
  for (;;) {
    const auto waiting = std::make_shared<Waiting>(shell_.loop());
    {
      LoopDriver::Turn turn(shell_.loop(), *waiting);
      shell_.loop().Post([self = shared_from_this(), waiting, kind, payload] {
        self->dispatcher_->Call(kind, payload,
                                [self, waiting](absl::StatusOr<std::string> answer, bool reached) {
                                  const MutexLock lock(self->mutex_);
                                  waiting->answer = std::move(answer);
                                  waiting->reached = reached;
                                  waiting->done = true;
                                  waiting->Wake();
                                });
      });
      absl::Status status = shell_.Wait(turn, deadline, options_.interrupted);
      if (!status.ok()) return status;
    }
    {
      const MutexLock lock(mutex_);
      if (waiting->done && waiting->reached) return std::move(waiting->answer);
      if (waiting->done) last = waiting->answer.status();
    }
    if (MonotonicNow() + kRetryOpen >= deadline) {
      return native::WithReason(
          absl::DeadlineExceededError(absl::StrFormat(
              "the server at %s did not answer within %s%s: does `lockstep serve` run there?",
              server_,
              absl::FormatDuration(absl::Floor(MonotonicNow() - began, absl::Milliseconds(1))),
              last.ok() ? "" : absl::StrCat(" (", std::string(last.message()), ")"))),
          "server_unavailable");
    }
    const auto pause = std::make_shared<Waiting>(shell_.loop());
    LoopDriver::Turn rest(shell_.loop(), *pause);
    absl::Status status = shell_.Wait(rest, MonotonicNow() + kRetryOpen, options_.interrupted);
    if (!status.ok()) return status;
  }
}

absl::Status DataReader::Impl::Register(Time deadline) {
  if (options_.definition.nodes.empty()) {
    if (options_.dataset.empty()) {
      return native::WithReason(
          absl::InvalidArgumentError("which dataset? Give a definition, or the name of one that "
                                     "was registered"),
          "invalid_argument");
    }
    auto answer =
        CallServer(native::KindOf<native::GetDataset>::kKind,
                   native::Encode(native::GetDataset{.name = options_.dataset}), deadline);
    if (!answer.ok()) return answer.status();
    auto reply = native::Decode<native::GetDatasetReply>(*answer);
    if (!reply.ok()) return reply.status();
    dataset_ = reply->dataset;
    identity_ = reply->identity;
    element_spec_ = reply->element_spec;
    return absl::OkStatus();
  }
  auto answer = CallServer(
      native::KindOf<native::RegisterDataset>::kKind,
      native::Encode(native::RegisterDataset{
          .name = options_.dataset, .definition = {native::EncodeDefinition(options_.definition)}}),
      deadline);
  if (!answer.ok()) return answer.status();
  auto reply = native::Decode<native::RegisterDatasetReply>(*answer);
  if (!reply.ok()) return reply.status();
  dataset_ = reply->dataset;
  identity_ = reply->identity;
  element_spec_ = reply->element_spec;
  return absl::OkStatus();
}

absl::Status DataReader::Impl::OpenIteration(Time deadline) {
  dispatch::ConsumerOptions options;
  options.spec = {.name = options_.name,
                  .repetition = options_.repetition,
                  .dataset = dispatch::DatasetId(dataset_),
                  .mode = static_cast<dispatch::Mode>(options_.order),
                  .sharding = static_cast<dispatch::Sharding>(options_.sharding),
                  .visitation = static_cast<dispatch::Visitation>(options_.visitation),
                  .consumers = options_.consumers,
                  .shares = options_.shares,
                  .worker_addresses = options_.worker_addresses,
                  .cursor = options_.cursor,
                  .on_lost = static_cast<dispatch::OnLost>(options_.on_lost)};
  options.consumer = consumer_;
  options.life = dispatch::ConsumerLife(runtime::RandomNumber() | 1);
  options.index = options_.index;
  options.definition = identity_;
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

  const auto waiting = std::make_shared<Waiting>(shell_.loop());
  LoopDriver::Turn turn(shell_.loop(), *waiting);
  {
    const MutexLock lock(mutex_);
    machine_ = std::make_unique<dispatch::ConsumerMachine>(std::move(options));
    opening_ = waiting;
    machine_->Open(MonotonicNow(), scratch_);
    // The cursor is of something else, say: nobody was asked.
    if (machine_->failed() != nullptr) return StatusOf(machine_->failed());
    Take(scratch_, /*on_loop=*/false);
  }
  absl::Status status = shell_.Wait(turn, deadline, options_.interrupted);
  const MutexLock lock(mutex_);
  opening_ = nullptr;
  if (!status.ok()) return status;
  if (!open_error_.ok()) return open_error_;
  const auto opened = machine_->opened();
  if (!opened && machine_->failed() != nullptr) return StatusOf(machine_->failed());
  if (!opened) return TimedOut(options_.timeout);
  name_ = opened->name;
  lease_had_ended_ = opened->lease_had_ended;
  for (const dispatch::LaneAck& ack : opened->counted) {
    counted_.push_back({ack.lane.value(), ack.seq, ack.elements, ack.done});
  }
  return absl::OkStatus();
}

// --- Callers ---

absl::Status DataReader::Impl::Closed() const {
  return native::WithReason(absl::CancelledError("the reader is closed"), "cancelled");
}

absl::Status DataReader::Impl::TimedOut(absl::Duration after) const {
  std::string what;
  if (machine_ != nullptr) what = machine_->GetView().waits_for;
  if (what.empty()) what = "an element";
  std::string text =
      absl::StrFormat("no element within %s: waits for %s", absl::FormatDuration(after), what);
  std::string_view reason = "timeout";
  if (!server_away_.ok()) {
    reason = "server_unavailable";
    absl::StrAppend(&text, "; the server at ", server_, " could not be reached for ",
                    absl::FormatDuration(
                        absl::Floor(MonotonicNow() - server_away_since_, absl::Milliseconds(100))),
                    " (", std::string(server_away_.message()), ")");
  }
  absl::StrAppend(&text, "; `lockstep data --coordinator ", server_,
                  "` shows workers and iterations");
  return native::WithReason(absl::DeadlineExceededError(text), reason);
}

absl::StatusOr<std::optional<DataElement>> DataReader::Impl::Next(const CallOptions& options) {
  if (!here()) return shell_.Forked();
  const auto given = [this](dispatch::HandOut& out) -> absl::StatusOr<std::optional<DataElement>> {
    mutex_.AssertHeld();
    if (out.error != nullptr) return StatusOf(out.error);
    if (out.end) return std::nullopt;
    const dispatch::ElementPlace& at = out.place;
    const ElementPlace place = {.lane = at.lane.value(),
                                .seq = at.seq,
                                .segment = at.segment,
                                .element = at.element,
                                .round = at.round,
                                .task = at.task.value()};
    ++elements_;
    bytes_ += static_cast<int64_t>(out.element.bytes);
    if (!options_.acknowledge_by_itself) last_places_[place.lane] = place;
    return DataElement(std::move(out.element.payload), out.element.bytes, place);
  };

  dispatch::AskId ask;
  Time began;
  WaitingPtr waiting;
  {
    const MutexLock lock(mutex_);
    if (closed_) return Closed();
    ask = dispatch::AskId(++last_ask_);
    asking_ = ask;
    machine_->Next(MonotonicNow(), ask, scratch_);
    Take(scratch_, /*on_loop=*/false);
    asking_ = {};
    if (handed_) {
      dispatch::HandOut out = *std::exchange(handed_, std::nullopt);
      return given(out);
    }
    // It has to be waited for.
    ++stalls_;
    began = MonotonicNow();
    waiting = std::make_shared<Waiting>(shell_.loop());
    asks_[ask] = waiting;
  }
  absl::Status status;
  {
    LoopDriver::Turn turn(shell_.loop(), *waiting);
    if (turn.drives()) Drain();
    status = shell_.Wait(turn, began + options.timeout, options.interrupted);
  }
  if (!here()) return shell_.Forked();
  const MutexLock lock(mutex_);
  stalled_ += MonotonicNow() - began;
  if (!waiting->done) {
    if (status.ok()) status = TimedOut(options.timeout);
    machine_->Cancel(MonotonicNow(), ask, scratch_);
    Take(scratch_, /*on_loop=*/false);
    asks_.erase(ask);
    return status;
  }
  return given(*waiting->handed);
}

absl::Status DataReader::Impl::Acknowledge(const ElementPlace& place) {
  if (!here()) return shell_.Forked();
  const MutexLock lock(mutex_);
  if (closed_) return Closed();
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
    places = last_places_;
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
  std::vector<ReadMark> marks;
  for (const dispatch::LaneAck& ack : machine_->Acks()) {
    marks.push_back({ack.lane.value(), ack.seq, ack.elements, ack.done});
  }
  return marks;
}

DataReaderView DataReader::Impl::View() const {
  if (!here()) return {.state = "forked"};
  const MutexLock lock(mutex_);
  const dispatch::ConsumerMachine::View view = machine_->GetView();
  const client::WorkerLinks::Totals read = workers_->totals();
  return {.state = view.state,
          .waits_for = view.waits_for,
          .elements = elements_,
          .bytes = bytes_,
          .round = view.round,
          .buffered_bytes = view.buffered_bytes,
          .reads = read.reads,
          .stalls = stalls_,
          .stalled = stalled_,
          .dropped = view.dropped,
          .shared_elements = read.shared_elements,
          .unacknowledged = view.unacknowledged,
          .unacknowledged_bytes = view.unacknowledged_bytes};
}

void DataReader::Impl::Close() {
  if (!here()) return;
  const auto waiting = std::make_shared<Waiting>(shell_.loop());
  bool reads = false;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    reads = machine_ != nullptr;
    if (reads) {
      closing_ = waiting;
      machine_->Close(MonotonicNow(), scratch_);
      Take(scratch_, /*on_loop=*/false);
    }
  }
  if (reads) {
    LoopDriver::Turn turn(shell_.loop(), *waiting);
    bool done = false;
    {
      const MutexLock lock(mutex_);
      done = machine_closed_;
    }
    if (!done) (void)shell_.Wait(turn, MonotonicNow() + kCloseTimeout, nullptr);
  }
  shell_.loop().Post([self = shared_from_this()] { self->EndOnLoop(); });
}

// --- The machine's wishes ---

void DataReader::Impl::Take(dispatch::ConsumerEffects& effects, bool on_loop) {
  for (dispatch::HandOut& out : effects.handed_out) {
    if (out.ask == asking_) {
      handed_ = std::move(out);
      continue;
    }
    auto node = asks_.extract(out.ask);
    if (node.empty()) continue;
    const WaitingPtr waiting = std::move(node.mapped());
    waiting->handed = std::move(out);
    waiting->done = true;
    if (on_loop) {
      waiting->Wake();
    } else {
      shell_.loop().Post([waiting] { waiting->Wake(); });
    }
  }
  const bool for_loop = !effects.requests.empty() || !effects.reads.empty();
  std::move(effects.requests.begin(), effects.requests.end(), std::back_inserter(requests_));
  std::move(effects.reads.begin(), effects.reads.end(), std::back_inserter(reads_));
  if (effects.closed && !machine_closed_) {
    machine_closed_ = true;
    if (closing_ != nullptr) {
      shell_.loop().Post([waiting = closing_] { waiting->Wake(); });
    }
  }
  effects.handed_out.clear();
  effects.requests.clear();
  effects.reads.clear();
  effects.cancelled_reads.clear();
  effects.notices.clear();
  effects.closed = false;
  if (!on_loop && (for_loop || shell_.RingsTooLate(machine_->NextDeadline()))) PostDrain();
}

void DataReader::Impl::PostDrain() {
  if (std::exchange(posted_, true)) return;
  shell_.loop().Post([self = shared_from_this()] { self->Drain(); });
}

void DataReader::Impl::Drain() {
  if (ended_) return;
  std::vector<dispatch::SendToDispatcher> requests;
  std::vector<dispatch::SendRead> reads;
  Time due;
  {
    const MutexLock lock(mutex_);
    posted_ = false;
    requests.swap(requests_);
    reads.swap(reads_);
    due = machine_->NextDeadline();
  }
  for (dispatch::SendToDispatcher& request : requests) Send(std::move(request));
  for (dispatch::SendRead& read : reads) {
    workers_->Read(std::move(read), [weak = weak_from_this()](dispatch::ConsumerEvent event) {
      if (const auto self = weak.lock()) self->Feed(std::move(event));
    });
  }
  shell_.ArmTimer(due, weak_from_this(), [](Impl& self) { self.Ring(); });
}

void DataReader::Impl::Ring() {
  if (ended_) return;
  {
    const MutexLock lock(mutex_);
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
    if (opening_ != nullptr && !opening_->done &&
        (machine_->opened() || machine_->failed() != nullptr || !open_error_.ok())) {
      opening_->done = true;
      opening_->Wake();
    }
  }
  Drain();
}

void DataReader::Impl::Send(dispatch::SendToDispatcher request) {
  const dispatch::RequestId id = request.request;
  link::RequestKind kind = 0;
  std::string payload;
  if (const auto* open = std::get_if<dispatch::OpenIteration>(&request.what)) {
    kind = native::KindOf<native::OpenIteration>::kKind;
    payload = native::Encode(native::MessageOf(*open));
  } else if (const auto* poll = std::get_if<dispatch::ConsumerPoll>(&request.what)) {
    kind = native::KindOf<native::ConsumerPoll>::kKind;
    payload = native::Encode(native::MessageOf(*poll));
  } else {
    kind = native::KindOf<native::CloseConsumer>::kKind;
    payload = native::Encode(native::MessageOf(std::get<dispatch::CloseConsumer>(request.what)));
  }
  dispatcher_->Call(
      kind, std::move(payload),
      [weak = weak_from_this(), id, kind](absl::StatusOr<std::string> answer, bool reached) {
        const auto self = weak.lock();
        if (self == nullptr || self->ended_) return;
        dispatch::DispatcherAnswered event{.request = id};
        const auto read = [&](auto message, auto convert) {
          using Message = decltype(message);
          auto reply = native::Decode<Message>(*answer);
          if (!reply.ok()) {
            event.error = native::ErrorOf(reply.status());
            return;
          }
          auto value = convert(*reply);
          if (value.ok()) {
            event.answer = *std::move(value);
          } else {
            event.error = native::ErrorOf(value.status());
          }
        };
        {
          const MutexLock lock(self->mutex_);
          if (reached) {
            self->server_away_ = absl::OkStatus();
          } else if (self->server_away_.ok()) {
            self->server_away_ = answer.status();
            self->server_away_since_ = MonotonicNow();
          }
        }
        // A server that ends answers so too; its successor may be there soon.
        const bool ends = !answer.ok() && native::ReasonOf(answer.status()) == "service_stopped";
        if (!reached || ends) {
          event.unavailable = true;
          event.error = native::ErrorOf(answer.status());
        } else if (!answer.ok()) {
          event.error = native::ErrorOf(answer.status());
        } else if (kind == native::KindOf<native::OpenIteration>::kKind) {
          read(native::OpenIterationReply{}, [](auto& reply) { return native::AnswerOf(reply); });
        } else if (kind == native::KindOf<native::ConsumerPoll>::kKind) {
          read(native::ConsumerPollReply{}, [](auto& reply) { return native::AnswerOf(reply); });
        } else {
          event.answer = dispatch::ConsumerClosed{};
        }
        // Also an answer that cannot be read: nobody waits for another one.
        if (kind == native::KindOf<native::OpenIteration>::kKind && event.error != nullptr &&
            !event.unavailable) {
          const MutexLock lock(self->mutex_);
          self->open_error_ = StatusOf(event.error);
        }
        self->Feed(std::move(event));
      });
}

void DataReader::Impl::EndOnLoop() {
  ended_ = true;
  shell_.CancelTimer();
  dispatcher_->End();
  workers_->End();
}

}  // namespace lockstep
