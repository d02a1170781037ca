#include "lockstep/server/job_host.h"

#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "lockstep/platform/runtime/dial.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

net::StockListenerOptions WithJob(net::StockListenerOptions listener,
                                  const coord::CoordinatorOptions& job,
                                  runtime::MemoryAccount& memory) {
  listener.roles = job.roles;
  listener.memory = &memory;
  listener.owner = JobMemory::OwnerOf(job.job);
  return listener;
}

// The call of an event that only says that somebody lives; none: it says more.
CallId SignOfLife(const coord::Event& event) {
  if (const auto* beat = std::get_if<coord::Heartbeat>(&event)) return beat->caller.call;
  if (const auto* step = std::get_if<coord::ReportProgress>(&event)) return step->caller.call;
  return {};
}

// A stock client is a task, as others are by their token.
coord::Event AsTask(coord::Event event) {
  std::visit(
      [](auto& e) {
        if constexpr (requires { e.caller; }) e.caller.standing = coord::Standing::kTask;
      },
      event);
  return event;
}

}  // namespace

JobHost::JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, CommitQueue& commits,
                 NativeListener& native, EventFeed& feed, Counters& counters,
                 runtime::MemoryAccount& memory, const StoreHostOptions& stores,
                 net::StockListenerOptions listener, size_t journal_queue_bytes_max)
    : NativeJob(&stock_.passed_on, &stores_.agents),
      coordinator_(std::move(coordinator)),
      counters_(counters),
      stock_{.listener = net::StockListener(
                 loop, WithJob(listener, options(), memory),
                 [this, are_tasks = listener.callers_are_tasks ||
                                    listener.tls.has_value()](coord::Event event) {
                   Handle(are_tasks ? AsTask(std::move(event)) : std::move(event));
                 },
                 [this] { return coordinator_.service_incarnation(); },
                 [this](std::string text) { spdlog::warn("job '{}': {}", name(), text); }),
             .passed_on = PassedStockCalls(
                 options().roles, listener.connections.connections_max,
                 [this] { return coordinator_.service_incarnation(); }, runtime::MonotonicNow)},
      stores_{
          .host = StoreHost(loop, stores, commits, name(), size(), TellersOfStores(), &memory,
                            [this, &native](CallId call, absl::StatusOr<tcpstore::ValuePtr> bytes) {
                              if (!bytes.ok()) return native.AnswerTorch(call, bytes.status());
                              native.AnswerTorch(call, wire::native::TorchCommandReply{
                                                           .answer = {*std::move(bytes)},
                                                           .attempt = stores_.host.attempt()});
                            }),
          .agents = StoreAgents(stores_.host, stores.store.keeps,
                                [this](std::string text) {
                                  outlet_.Tell(coord::LogEntry{.text = std::move(text)});
                                })},
      memory_(memory, name()),
      outlet_(
          loop, name(),
          {.commits = commits,
           .stock = stock_.listener,
           .native = native,
           .feed = feed,
           .counters = counters},
          {.member = [this](Time now,
                            MemberIndex member) { return coordinator_.WatchedViewOf(now, member); },
           .session_ended = [this](SessionId session) { stores_.agents.AgentGone(session); },
           .answered =
               [this](const std::vector<coord::Reply>& replies) {
                 auto cause = stack_questions_.TimedOut(replies);
                 if (cause) AskForStacks(*std::move(cause));
               }}),
      delayed_(
          commits, journal_queue_bytes_max,
          [this](coord::Event event) {
            const coord::NoRoom no_room = memory_.RoomFor(event, outlet_.durable());
            Take(std::move(event), no_room);
          },
          outlet_.alive()),
      stack_questions_(AskedOfJob()),
      loop_(loop),
      timer_(loop, [this] { Handle(coord::DeadlineReached{}); }),
      life_{.last_used = runtime::MonotonicNow()},
      members_(coordinator_) {}

StoreHost::Tellers JobHost::TellersOfStores() {
  return {
      .log = [this](std::string text) { outlet_.Tell(coord::LogEntry{.text = std::move(text)}); },
      .given_up =
          [this](std::string text, std::optional<int32_t> rank) {
            AskForStacks({.because = text,
                          .awaited = rank ? std::vector<int32_t>{*rank} : std::vector<int32_t>()});
            outlet_.Tell({.severity = coord::Severity::kWarning,
                          .text = std::move(text),
                          .about = {coord::LogKind::kBarrierFailed}});
          },
      .foreign =
          [this](std::string text) { spdlog::warn("job '{}', torch's store: {}", name(), text); }};
}

StackQuestions::Job JobHost::AskedOfJob() const {
  return {.any_process_runs = [this] { return coordinator_.AnyProcessRuns(); },
          .members_named =
              [this](const std::string& names) {
                // As errors list them: "task/2,task/3".
                std::vector<int32_t> members;
                if (names.empty()) return members;
                const std::set<std::string> named = absl::StrSplit(names, ',');
                for (int32_t i = 0; i < size(); ++i) {
                  if (named.contains(coordinator_.NameOf(MemberIndex(i)))) members.push_back(i);
                }
                return members;
              },
          .service = [this] { return coordinator_.service_incarnation(); }};
}

absl::Status JobHost::Listen(const runtime::Address& at) { return stock_.listener.Listen(at); }

wire::store::Job JobHost::saved() const {
  const coord::CoordinatorOptions& is = options();
  return {.name = name(),
          .size = is.size,
          .roles = is.roles,
          .recoverable = is.recoverable,
          .temporary = life_.temporary,
          .host = stock_.listener.address().address().to_string(),
          .port = stock_.listener.address().port(),
          .incarnation_seed = is.incarnation_seed};
}

void JobHost::Handle(coord::Event event) {
  stack_questions_.Saw(runtime::MonotonicNow(), event);
  stores_.host.Note(event);
  counters_.Count(event);
  if (outlet_.keeps() && delayed_.Concerns(event)) {
    if (coord::ErrorPtr refusal = delayed_.Delay(event)) {
      Take(std::move(event), {.for_new = refusal, .for_small = nullptr});
    }
    return;
  }
  const coord::NoRoom no_room = memory_.RoomFor(event, outlet_.durable());
  Take(std::move(event), no_room);
}

void JobHost::Take(coord::Event&& event, const coord::NoRoom& no_room) {
  const CallId alive = SignOfLife(event);
  coord::Effects effects = coordinator_.Handle(runtime::MonotonicNow(), std::move(event), no_room);
  timer_.MoveTo(coordinator_.NextDeadline());
  memory_.Count(coordinator_.Memory(), delayed_.bytes() + outlet_.bytes(), outlet_.keeps());
  outlet_.Settle(std::move(effects), alive);
}

void JobHost::AskForStacks(StackQuestions::Cause cause) {
  std::optional<coord::SetKey> question = stack_questions_.Ask(
      runtime::MonotonicNow(), absl::ToUnixMicros(absl::Now()), std::move(cause));
  if (!question) return;
  // From the loop: we are in the middle of what another event has brought about.
  loop_.Post([this, alive = outlet_.alive(), question = *std::move(question)] {
    if (!alive.expired() && !outlet_.forgotten()) Handle(question);
  });
}

std::string JobHost::grpc_address() const { return runtime::ToString(stock_.listener.address()); }

void JobHost::Stop() {
  stock_.listener.StopAccepting();
  stores_.host.Stop();
  outlet_.Forget();
  Handle(coord::Stop{});
  outlet_.Finish();
  delayed_.TakeUpAll();
}

void JobHost::Shutdown() { stock_.listener.Shutdown(); }

}  // namespace lockstep::server
