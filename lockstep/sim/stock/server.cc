#include "lockstep/sim/stock/server.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/server/passed_stock_calls.h"
#include "lockstep/sim/event_fields.h"
#include "lockstep/sim/native_mutant.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::sim {
namespace {

using link::FrameType;
using link::Message;
using wire::native::KindOf;
using wire::native::StockCall;

constexpr size_t kConnectionsMax = 1000;

// Changes what the callers behind agents say of themselves.
class Credulous : public DurableCoordinator {
 public:
  Credulous(const coord::CoordinatorOptions& options, StockMutation mutation)
      : DurableCoordinator(options), mutation_(mutation) {}
  coord::Effects Handle(Time now, coord::Event event) override {
    coord::Caller* const caller = CallerOf(event);
    if (caller != nullptr && !caller->agent.none()) {
      if (mutation_ == StockMutation::kTakesRetriesForNew) caller->number = ++number_;
      if (mutation_ == StockMutation::kTakesOldArrivals &&
          std::holds_alternative<coord::ArriveAtBarrier>(event)) {
        caller->service = View(now).service;
        caller->incarnation = Incarnation();
      }
    }
    return DurableCoordinator::Handle(now, std::move(event));
  }

 private:
  const StockMutation mutation_;
  uint64_t number_ = uint64_t{1} << 40;
};

}  // namespace

// From one start of the server to its death.
class StockServer::Life final : public server::NativeJob {
 public:
  explicit Life(StockServer& server)
      : NativeJob(&calls_, nullptr),
        server_(server),
        machine_(server.NewMachine()),
        calls_(
            server.options_.roles, kConnectionsMax,
            [this] { return machine_->View(server_.schedule_.now()).service; },
            [this] { return server_.schedule_.now(); }),
        sink_(std::make_shared<Sink>(server)),
        listener_([this](const auto&, const auto&) { return this; },
                  [this](LinkId link, const absl::Status&) { server_.Break(link, false); }) {}
  // What has no answer gets none.
  ~Life() override { sink_.reset(); }

  void Handle(coord::Event event) override { server_.Handle(std::move(event)); }

  DurableMachine& machine() { return *machine_; }
  server::NativeListener& listener() { return listener_; }
  link::Responder MakeResponder(LinkId link, link::RequestKind kind, uint64_t id) {
    return link::Responder(sink_, link, kind, id);
  }

 private:
  class Sink : public link::Responder::Sink {
   public:
    explicit Sink(StockServer& server) : server_(server) {}
    void Answer(LinkId link, link::RequestKind kind, uint64_t id, link::Payload payload) override {
      server_.Answer(link, kind, id, std::move(payload));
    }

   private:
    StockServer& server_;
  };

  StockServer& server_;
  const std::unique_ptr<DurableMachine> machine_;
  server::PassedStockCalls calls_;
  std::shared_ptr<Sink> sink_;
  server::NativeListener listener_;
};

StockServer::StockServer(Schedule& schedule, Random random,
                         const coord::CoordinatorOptions& options, const StockTimes& times,
                         Trace& trace, StockMutation mutant)
    : schedule_(schedule),
      random_(random),
      options_(options),
      times_(times),
      trace_(trace),
      mutant_(mutant),
      life_(std::make_unique<Life>(*this)) {}

StockServer::~StockServer() = default;

std::unique_ptr<DurableMachine> StockServer::NewMachine() const {
  if (mutant_ == StockMutation::kTakesRetriesForNew ||
      mutant_ == StockMutation::kTakesOldArrivals) {
    return std::make_unique<Credulous>(options_, mutant_);
  }
  if (mutant_ == StockMutation::kForgetsAnswers) {
    return std::make_unique<NativeMutantMachine>(options_, NativeMutation::kForgetsAnswers);
  }
  return std::make_unique<DurableCoordinator>(options_);
}

void StockServer::InThisLife(absl::Duration after, std::function<void()> action) {
  schedule_.After(after, [this, life = lives_, action = std::move(action)] {
    if (life == lives_ && up()) action();
  });
}

// --- Links ---

std::optional<StockServer::LinkId> StockServer::Dial(ClientEnd end) {
  if (!up()) return std::nullopt;
  const LinkId id(++last_link_);
  links_[id].end = std::move(end);
  return id;
}

void StockServer::Send(LinkId id, Message message) {
  Link& link = links_.at(id);
  if (!link.client_end) return;
  link.last_up = std::max(link.last_up, schedule_.now() + Delay());
  schedule_.At(link.last_up, [this, id, message = std::move(message)]() mutable {
    Link& to = links_.at(id);
    if (!to.server_end || !up()) return;
    to.arrived.push_back(std::move(message));
    TakeArrived(id);
  });
}

void StockServer::TakeArrived(LinkId id) {
  Link& link = links_.at(id);
  while (schedule_.now() >= paused_until_ && link.server_end && up() && !link.arrived.empty()) {
    Message message = std::move(link.arrived.front());
    link.arrived.pop_front();
    Take(id, std::move(message));
  }
}

void StockServer::Take(LinkId id, Message&& message) {
  server::NativeListener& listener = life_->listener();
  switch (message.type) {
    case FrameType::kRequest: {
      link::Responder responder = life_->MakeResponder(id, message.kind, message.id);
      link::Request request = {.link = id,
                               .id = message.id,
                               .kind = message.kind,
                               .payload = std::move(message.payload),
                               .who = "lockstep agent",
                               .peer = "10.0.0.1:5"};
      request.rights.role = wire::native::Role::kLaunch;
      if (message.kind != KindOf<StockCall>::kKind) {
        return listener.Take(std::move(request), std::move(responder));
      }
      links_.at(id).open.insert(message.id);
      return listener.TakeStock(request, std::move(responder));
    }
    case FrameType::kCancel:
      return listener.Cancelled(id, message.id);
    case FrameType::kAnswered: {
      const auto answered = wire::native::Decode<wire::native::Answered>(message.payload);
      if (answered.ok()) listener.Answered(id, static_cast<uint64_t>(answered->through));
      return;
    }
    default:
      return;
  }
}

void StockServer::Down(LinkId id, Message message) {
  Link& link = links_.at(id);
  link.last_down = std::max(link.last_down, schedule_.now() + Delay());
  schedule_.At(link.last_down, [this, id, message = std::move(message)]() mutable {
    Link& from = links_.at(id);
    if (from.client_end) from.end.message(std::move(message));
  });
}

void StockServer::Answer(LinkId id, link::RequestKind kind, uint64_t request,
                         link::Payload payload) {
  Link& link = links_.at(id);
  if (!link.server_end) return;
  link.open.erase(request);
  for (const uint64_t other : payload.also) link.open.erase(other);
  shared_ += static_cast<int64_t>(payload.also.size());
  if (mutant_ == StockMutation::kAnswersOneMore && !payload.also.empty() && !link.open.empty()) {
    payload.also.push_back(*link.open.begin());
  }
  if (!payload.also.empty()) {
    Down(id, {.type = FrameType::kAlsoAnswered,
              .id = request,
              .payload = wire::native::Encode(
                  wire::native::AlsoAnswered{.requests = std::move(payload.also)})});
  }
  Down(id, {.type = payload.failed ? FrameType::kError : FrameType::kAnswer,
            .kind = kind,
            .id = request,
            .payload = payload.shared != nullptr ? *payload.shared : std::move(payload.bytes)});
}

void StockServer::Break(LinkId id, bool silent) {
  const absl::Duration silence = silent ? times_.silence : absl::ZeroDuration();
  schedule_.After(Delay() + silence, [this, id] {
    Link& link = links_.at(id);
    if (!std::exchange(link.client_end, false)) return;
    link.end.broke();
  });
  schedule_.After(Delay() + silence, [this, id, silent] { DropServerEnd(id, !silent); });
}

void StockServer::DropServerEnd(LinkId id, bool by_peer) {
  Link& link = links_.at(id);
  if (!std::exchange(link.server_end, false) || !up()) return;
  life_->listener().Ended(id, by_peer);
}

// --- The coordinator and its journal ---

void StockServer::Handle(coord::Event event) {
  if (!failure_.empty() || !up()) return;
  ++steps_;
  trace_.Event(steps_, schedule_.now(), event);
  coord::Effects effects = life_->machine().Handle(schedule_.now(), std::move(event));
  trace_.Effects(effects);
  Batch batch;
  for (coord::Record& record : effects.records) {
    batch.records.push_back({schedule_.now(), std::move(record)});
  }
  batch.replies = std::move(effects.replies);
  if (mutant_ == StockMutation::kSpeaksTooEarly) {
    life_->listener().Answer(std::exchange(batch.replies, {}));
  }
  if (!batch.records.empty() || !batch.replies.empty()) waiting_.push_back(std::move(batch));
  SaySpoken();
  SyncLater();
  Arm();
}

// What waits for no record is said at once.
void StockServer::SaySpoken() {
  while (!waiting_.empty() && waiting_.front().records.empty()) BecomeDurable(1);
}

// The journal's thread takes all that is there, and is done a while later.
void StockServer::SyncLater() {
  if (syncing_ || waiting_.empty()) return;
  syncing_ = true;
  InThisLife(random_.Between(absl::Microseconds(50), times_.sync_max),
             [this, group = waiting_.size()] {
               syncing_ = false;
               BecomeDurable(group);
               SaySpoken();
               SyncLater();
             });
}

void StockServer::BecomeDurable(size_t batches) {
  for (size_t i = 0; i < batches; ++i) {
    Batch batch = std::move(waiting_.front());
    waiting_.pop_front();
    for (coord::TimedRecord& record : batch.records) durable_.push_back(std::move(record));
    life_->listener().Answer(batch.replies);
  }
}

void StockServer::Arm() {
  const Time deadline = life_->machine().NextDeadline();
  if (deadline >= armed_) return;
  armed_ = deadline;
  if (deadline.is_infinite()) return;
  InThisLife(std::max(deadline, paused_until_) - schedule_.now(), [this, deadline] {
    if (armed_ != deadline) return;
    armed_ = Time::Infinite();
    if (schedule_.now() < paused_until_) return Arm();
    if (life_->machine().NextDeadline() > schedule_.now()) return Arm();
    Handle(coord::DeadlineReached{});
  });
}

// --- Faults ---

void StockServer::Pause(absl::Duration how_long) {
  if (!up()) return;
  paused_until_ = schedule_.now() + how_long;
  InThisLife(how_long, [this] {
    for (uint64_t id = 1; id <= last_link_; ++id) TakeArrived(LinkId(id));
  });
}

void StockServer::Crash(absl::Duration down) {
  if (!up()) return;
  ++crashes_;
  ++lives_;
  // Of what was being written, any part may have reached the disk, in order.
  const auto kept = static_cast<size_t>(random_.Between(0, int64_t(waiting_.size())));
  trace_.Note(schedule_.now(),
              absl::StrCat("the server dies, ", waiting_.size() - kept, " batches unwritten"));
  for (size_t i = 0; i < kept; ++i) {
    for (coord::TimedRecord& record : waiting_[i].records) durable_.push_back(std::move(record));
  }
  waiting_.clear();
  syncing_ = false;
  life_.reset();
  armed_ = Time::Infinite();
  paused_until_ = Time();
  for (auto& [id, link] : links_) {
    link.server_end = false;
    if (link.client_end) Break(id, false);
  }
  schedule_.After(down, [this] { Restart(); });
}

void StockServer::Restart() {
  life_ = std::make_unique<Life>(*this);
  for (const coord::TimedRecord& timed : durable_) {
    if (absl::Status status = life_->machine().Apply(timed.at, timed.record); !status.ok()) {
      failure_ = absl::StrCat("restore: ", std::string(status.message()));
      return;
    }
  }
  trace_.Note(schedule_.now(), absl::StrCat("the server is back, ", durable_.size(), " records"));
  Handle(coord::Restored{});
}

}  // namespace lockstep::sim
