#include "lockstep/server/metrics.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/coord/error.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/text_parts.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"

namespace lockstep::server {
namespace {

using wire::native::BarrierStatus;
using wire::native::JobStatus;
using wire::native::MemberCondition;
using wire::native::MemberStatus;
using wire::native::PreemptionPhase;

double Seconds(int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

// Families are made once, values for each job or kind added to them.
class Gauges {
 public:
  Gauges(prometheus::Registry& registry, const std::string& name, const std::string& help)
      : family_(prometheus::BuildGauge().Name(name).Help(help).Register(registry)) {}
  void Set(const prometheus::Labels& labels, double value) { family_.Add(labels).Set(value); }

 private:
  prometheus::Family<prometheus::Gauge>& family_;
};

class Counts {
 public:
  Counts(prometheus::Registry& registry, const std::string& name, const std::string& help)
      : family_(prometheus::BuildCounter().Name(name).Help(help).Register(registry)) {}
  void Set(const prometheus::Labels& labels, uint64_t value) {
    family_.Add(labels).Increment(static_cast<double>(value));
  }

 private:
  prometheus::Family<prometheus::Counter>& family_;
};

double OldestBarrier(const JobStatus& job) {
  int64_t oldest = 0;
  for (const BarrierStatus& barrier : job.barriers) {
    oldest = std::max(oldest, barrier.opened_ago_us);
  }
  return Seconds(oldest);
}

// Of members that should be heard.
double OldestHeartbeat(const JobStatus& job) {
  int64_t oldest = 0;
  for (const MemberStatus& member : job.members) {
    const bool lives = member.condition == MemberCondition::kConnected ||
                       member.condition == MemberCondition::kSuspect;
    if (lives && member.last_heard_ago_us) oldest = std::max(oldest, *member.last_heard_ago_us);
  }
  return Seconds(oldest);
}

void AddVersion(prometheus::Registry& registry, const ServerView& view) {
  Gauges(registry, "lockstep_build_info", "1; the label says which version runs.")
      .Set({{"version", view.status.server.version}}, 1);
}

void AddServer(prometheus::Registry& registry, const ServerView& view) {
  Gauges(registry, "lockstep_uptime_seconds", "Since the server was started.")
      .Set({}, Seconds(view.status.server.started_ago_us));
  Gauges(registry, "lockstep_ready", "1 when /readyz says so, else 0.")
      .Set({}, view.not_ready.empty() ? 1 : 0);
  Gauges(registry, "lockstep_loop_turn_seconds_max",
         "Processor time of the longest turn of the server's loop in the last one to two minutes.")
      .Set({}, absl::ToDoubleSeconds(view.longest_turn));
  Counts(registry, "lockstep_loop_turns_total", "Turns of the server's loop.").Set({}, view.turns);
  Gauges(registry, "lockstep_jobs", "Jobs of the server.")
      .Set({}, static_cast<double>(view.status.jobs.size()));
  Gauges(registry, "lockstep_links", "Links of native clients and tools.")
      .Set({}, static_cast<double>(view.links));

  if (view.status.server.memory) {
    Gauges(registry, "lockstep_memory_limit_bytes", "What the server may hold (--memory-max).")
        .Set({}, static_cast<double>(view.status.server.memory->limit));
    Gauges parts(registry, "lockstep_memory_held_bytes",
                 "What the server holds, as it costs, by what it is.");
    for (const auto& part : view.memory) {
      parts.Set({{"part", part.part}}, static_cast<double>(part.bytes));
    }
  }
  if (view.journal) {
    Gauges(registry, "lockstep_journal_sequence", "Of the newest change handed to the journal.")
        .Set({}, static_cast<double>(view.journal->newest));
    Gauges(registry, "lockstep_journal_durable_sequence", "Of the newest change that is durable.")
        .Set({}, static_cast<double>(view.journal->durable));
  }
  Counts requests(registry, "lockstep_requests_total",
                  "Requests and facts that came, by kind; of all listeners together.");
  for (size_t i = 0; i < kEventKinds; ++i) {
    requests.Set({{"kind", std::string(EventName(i))}}, view.counters.events[i]);
  }
  requests.Set({{"kind", "status"}}, view.counters.status_requests);
  Counts(registry, "lockstep_fan_out_answers_total",
         "Long answers that an agent was told to have from another one.")
      .Set({}, view.fan_out.answers);
  Counts(registry, "lockstep_fan_out_bytes_total", "Bytes of those answers.")
      .Set({}, view.fan_out.bytes);
  Counts(registry, "lockstep_fan_out_fallbacks_total",
         "Agents that could not, and asked the server again.")
      .Set({}, view.fan_out.fallbacks);
  Counts errors(registry, "lockstep_errors_total",
                "Requests that were answered with an error, by reason (docs/errors.md).");
  for (size_t i = 0; i < kReasonsMax; ++i) {
    if (view.counters.errors[i] == 0) continue;
    const auto reason = static_cast<coord::Reason>(i);
    errors.Set({{"reason", std::string(coord::ReasonName(reason))}}, view.counters.errors[i]);
  }
  Counts preemptions(registry, "lockstep_preemptions_ended_total",
                     "Preemptions that have ended, by outcome (docs/preemption.md).");
  for (size_t i = 0; i < kOutcomesMax; ++i) {
    if (view.counters.preemptions[i] == 0) continue;
    const auto outcome = static_cast<coord::PreemptionOutcome>(i);
    preemptions.Set({{"outcome", std::string(coord::PreemptionOutcomeName(outcome))}},
                    view.counters.preemptions[i]);
  }
}

void AddPreemptions(prometheus::Registry& registry, const ServerView& view) {
  Gauges phases(registry, "lockstep_preemption_phase",
                "1 for the phase that the current preemption of a job, or the last, is in.");
  Gauges notices(registry, "lockstep_preemption_notices",
                 "Notices of the preemption of a job that is open.");
  for (const JobStatus& job : view.status.jobs) {
    PreemptionPhase now = PreemptionPhase::kNone;
    if (job.preemption) now = job.preemption->state.phase;
    for (const auto& [phase, name] : EnumNames(PreemptionPhase())) {
      if (phase == PreemptionPhase::kUnspecified) continue;
      phases.Set({{"job", job.job}, {"phase", std::string(name)}}, phase == now ? 1 : 0);
    }
    const bool open = job.preemption && observe::IsOpen(job.preemption->state);
    notices.Set({{"job", job.job}},
                open ? static_cast<double>(job.preemption->state.notices.size()) : 0);
  }
}

void AddJobs(prometheus::Registry& registry, const ServerView& view) {
  Gauges members(registry, "lockstep_members", "Members of a job, by their condition.");
  Gauges size(registry, "lockstep_job_size", "Members that a job has when all are there.");
  Gauges attempt(registry, "lockstep_attempt", "Which attempt of a job is the current one.");
  Gauges failed(registry, "lockstep_attempt_failed", "1 when the current attempt has failed.");
  Gauges barriers(registry, "lockstep_open_barriers", "Barriers that wait for somebody.");
  Gauges oldest(registry, "lockstep_oldest_barrier_seconds",
                "Since the first arrival at the open barrier that waits longest.");
  Gauges awaited(registry, "lockstep_awaited_keys",
                 "Keys that nobody has set and somebody waits for.");
  Gauges waits(registry, "lockstep_parked_waits", "Calls that wait for their answers.");
  Gauges keys(registry, "lockstep_keys", "Keys of a job.");
  Gauges bytes(registry, "lockstep_key_bytes", "Names and values of a job's keys.");
  Gauges heard(registry, "lockstep_oldest_heartbeat_seconds",
               "Since the last sign of life of the connected member that is silent longest.");
  Gauges sessions(registry, "lockstep_sessions", "Native sessions with a link.");
  Gauges connections(registry, "lockstep_connections", "Connections of stock clients.");
  for (size_t i = 0; i < view.status.jobs.size(); ++i) {
    const JobStatus& job = view.status.jobs[i];
    const prometheus::Labels labels = {{"job", job.job}};
    for (const MemberCondition condition : observe::kConditionsByNeed) {
      if (condition == MemberCondition::kUnspecified) continue;
      members.Set({{"job", job.job}, {"condition", std::string(NameOf(condition))}},
                  static_cast<double>(observe::MembersThatAre(job, condition).size()));
    }
    size.Set(labels, job.size);
    attempt.Set(labels, static_cast<double>(job.attempt));
    failed.Set(labels, job.state == wire::native::AttemptState::kFailed ? 1 : 0);
    barriers.Set(labels, static_cast<double>(job.barriers_open));
    oldest.Set(labels, OldestBarrier(job));
    awaited.Set(labels, static_cast<double>(job.keys_awaited));
    waits.Set(labels, static_cast<double>(job.waits));
    keys.Set(labels, static_cast<double>(job.keys));
    bytes.Set(labels, static_cast<double>(job.key_bytes));
    heard.Set(labels, OldestHeartbeat(job));
    if (i >= view.counts.size()) continue;
    sessions.Set(labels, static_cast<double>(view.counts[i].sessions));
    connections.Set(labels, static_cast<double>(view.counts[i].connections));
  }
}

// What members answered when somebody looked last is told as of then.
void AddRendezvous(prometheus::Registry& registry, const ServerView& view) {
  Gauges members(registry, "lockstep_rendezvous_members",
                 "Members that take part in the rendezvous of a job.");
  Gauges age(registry, "lockstep_rendezvous_look_age_seconds",
             "Since somebody looked last (`lockstep rendezvous`); the next are as of then.");
  Gauges answers(registry, "lockstep_rendezvous_look_answers", "Members that answered that look.");
  Gauges waits(registry, "lockstep_rendezvous_waits", "Receives that wait.");
  Gauges oldest(registry, "lockstep_rendezvous_oldest_wait_seconds",
                "Since the receive that waits longest began to.");
  Gauges values(registry, "lockstep_rendezvous_held_values", "Values sent and not received.");
  Gauges bytes(registry, "lockstep_rendezvous_held_bytes", "Bytes of those values.");
  for (size_t i = 0; i < std::min(view.counts.size(), view.status.jobs.size()); ++i) {
    const prometheus::Labels labels = {{"job", view.status.jobs[i].job}};
    const RendezvousTotals& totals = view.counts[i].rendezvous;
    members.Set(labels, static_cast<double>(totals.members));
    if (!totals.look.has_value()) continue;
    age.Set(labels, absl::ToDoubleSeconds(view.at - totals.look->at));
    answers.Set(labels, static_cast<double>(totals.look->answers));
    waits.Set(labels, static_cast<double>(totals.look->waits));
    oldest.Set(labels, Seconds(totals.look->oldest_wait_us));
    values.Set(labels, static_cast<double>(totals.look->held_values));
    bytes.Set(labels, static_cast<double>(totals.look->held_bytes));
  }
}

void AddTorchStores(prometheus::Registry& registry, const ServerView& view) {
  Gauges attempt(registry, "lockstep_torch_store_attempt",
                 "Which attempt of a job the store for torch's clients is of.");
  Gauges connections(registry, "lockstep_torch_store_connections", "Connections to that store.");
  Gauges keys(registry, "lockstep_torch_store_keys", "Keys in it that have a value.");
  Gauges queues(registry, "lockstep_torch_store_queues", "Queues in it that hold something.");
  Gauges bytes(registry, "lockstep_torch_store_bytes", "Keys, values and queued values in it.");
  Gauges waits(registry, "lockstep_torch_store_waits", "Waits of its clients, barriers included.");
  Gauges awaited(registry, "lockstep_torch_store_awaited_keys",
                 "Keys and barriers that they wait for.");
  Gauges oldest(registry, "lockstep_torch_store_oldest_wait_seconds",
                "Since the wait that lasts longest began.");
  Counts commands(registry, "lockstep_torch_store_commands_total",
                  "Commands that the stores of a job have taken, by kind.");
  for (size_t i = 0; i < std::min(view.counts.size(), view.status.jobs.size()); ++i) {
    const JobStatus& job = view.status.jobs[i];
    if (!job.torch_store) continue;
    const prometheus::Labels labels = {{"job", job.job}};
    const wire::native::StoreStatus& store = *job.torch_store;
    attempt.Set(labels, static_cast<double>(store.attempt));
    connections.Set(labels, static_cast<double>(store.connections));
    keys.Set(labels, static_cast<double>(store.keys));
    queues.Set(labels, static_cast<double>(store.queues));
    bytes.Set(labels, static_cast<double>(store.bytes));
    waits.Set(labels, static_cast<double>(store.waits));
    awaited.Set(labels, static_cast<double>(store.keys_awaited));
    oldest.Set(labels, store.awaited.empty() ? 0 : Seconds(store.awaited.front().since_ago_us));
    const TorchCommandCounts& counts = view.counts[i].torch_commands;
    for (size_t kind = 0; kind < counts.size(); ++kind) {
      if (counts[kind] == 0) continue;
      commands.Set({{"job", job.job}, {"command", std::string(TorchCommandName(kind))}},
                   counts[kind]);
    }
  }
}

void AddOfEachJob(prometheus::Registry& registry, const ServerView& view) {
  AddJobs(registry, view);
  AddPreemptions(registry, view);
  AddRendezvous(registry, view);
  AddTorchStores(registry, view);
}

// No label grows with iterations, workers or consumers: `lockstep data` has them one by one.
void AddData(prometheus::Registry& registry, const ServerView& view) {
  const wire::native::DataStatusReply& status = view.data.status;
  Gauges(registry, "lockstep_data_datasets", "Datasets that are registered.")
      .Set({}, static_cast<double>(status.datasets.size()));
  Gauges(registry, "lockstep_data_workers", "Data workers that are registered.")
      .Set({}, static_cast<double>(status.workers.size()));
  Gauges(registry, "lockstep_data_workers_wanted",
         "How many workers would keep up with the consumers; 0: not known.")
      .Set({}, static_cast<double>(status.workers_wanted));
  Gauges(registry, "lockstep_data_parked", "Polls that wait for something new.")
      .Set({}, static_cast<double>(status.parked));
  Gauges iterations(registry, "lockstep_data_iterations", "Iterations, by what they do.");
  for (const auto& [phase, name] : EnumNames(wire::native::IterationPhase())) {
    iterations.Set({{"phase", std::string(name)}},
                   static_cast<double>(std::count_if(
                       status.iterations.begin(), status.iterations.end(),
                       [phase = phase](const auto& one) { return one.phase == phase; })));
  }
  size_t consumers = 0;
  size_t waiting = 0;
  uint64_t backlog = 0;
  int64_t silent = 0;
  for (const wire::native::IterationStatus& iteration : status.iterations) {
    consumers += iteration.consumers.size();
    for (const wire::native::ConsumerStatus& consumer : iteration.consumers) {
      if (!consumer.waits_for.empty() && !consumer.finished) ++waiting;
      backlog += consumer.grants;
    }
  }
  for (const wire::native::WorkerStatus& worker : status.workers) {
    silent = std::max(silent, worker.silent_us);
  }
  Gauges(registry, "lockstep_data_consumers", "Consumers of all iterations.")
      .Set({}, static_cast<double>(consumers));
  Gauges(registry, "lockstep_data_consumers_waiting", "Of those, that wait for an element.")
      .Set({}, static_cast<double>(waiting));
  Gauges(registry, "lockstep_data_backlog_segments",
         "Segments that were given to consumers and not acknowledged (first come).")
      .Set({}, static_cast<double>(backlog));
  Gauges(registry, "lockstep_data_oldest_worker_poll_seconds",
         "Since the last sign of life of the worker that is silent longest.")
      .Set({}, Seconds(silent));
  Counts polls(registry, "lockstep_data_polls_total", "Signs of life, by who gave them.");
  polls.Set({{"of", "worker"}}, view.data.polls_of_workers);
  polls.Set({{"of", "consumer"}}, view.data.polls_of_consumers);
  Counts(registry, "lockstep_data_refused_total",
         "Requests to the data service that were answered with an error.")
      .Set({}, view.data.refused);
  Counts(registry, "lockstep_data_records_total", "Changes that the data service wrote down.")
      .Set({}, view.data.records);
}

}  // namespace

std::string MetricsText(const ServerView& view) {
  // Made anew each time: nothing is left of a job that is gone.
  prometheus::Registry registry;
  AddVersion(registry, view);
  AddServer(registry, view);
  AddOfEachJob(registry, view);
  AddData(registry, view);
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

std::string JobMetricsText(const ServerView& view) {
  prometheus::Registry registry;
  AddVersion(registry, view);
  AddOfEachJob(registry, view);
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

}  // namespace lockstep::server
