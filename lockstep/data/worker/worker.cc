#include "lockstep/data/worker/worker.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/data/worker/engine_source.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::data {
namespace {

namespace native = wire::native;
using runtime::MonotonicNow;

// Datasets that are known at a time: `worker_datasets_max`. What was used last is kept.
constexpr size_t kDatasetsMax = 256;
constexpr uint64_t kArenaBytesMin = uint64_t{256} << 20;
constexpr absl::Duration kRetry = absl::Milliseconds(200);
constexpr absl::Duration kDrainLook = absl::Milliseconds(100);
// On their way at a time: the one that is parked, and one that reports.
constexpr int kPollsMax = 2;
static_assert(kPollsMax > 1);

// Errors after which polling again makes no sense.
bool IsRefusal(const absl::Status& status) {
  const std::string reason = native::ReasonOf(status);
  return reason == "worker_version" || reason == "worker_replaced";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(runtime::Loop& loop, WorkerOptions options,
                                                      std::function<void(absl::Status)> failed) {
  if (options.uid == 0) options.uid = runtime::RandomNumber() | 1;
  std::unique_ptr<Worker> worker(new Worker(loop, std::move(options), std::move(failed)));
  if (absl::Status status = worker->Listen(); !status.ok()) return status;
  worker->SendPoll(/*at_once=*/true);
  return worker;
}

Worker::Worker(runtime::Loop& loop, WorkerOptions options, std::function<void(absl::Status)> failed)
    : loop_(loop),
      options_(WithArena(std::move(options))),
      failed_(std::move(failed)),
      cache_(std::make_unique<SegmentCache>(options_.cache)),
      dispatcher_(std::make_unique<DispatcherLink>(loop, options_.dispatcher, "lockstep worker",
                                                   options_.link)),
      retry_(loop),
      drain_(loop),
      // One message carries the list, with what else is in a poll, and later with the definition.
      resolver_(loop, *dispatcher_,
                {.roots = options_.allow_paths,
                 .manifest_bytes_max = options_.link.message_bytes_max / 8 * 7,
                 .log = [this](std::string text) { Say(std::move(text)); }},
                [this] {
                  if (registered()) SendPoll(/*at_once=*/true);
                }) {}

Worker::~Worker() = default;

// Twice what is kept: blocks are not filled to their ends, and what consumers hold is not kept.
WorkerOptions Worker::WithArena(WorkerOptions options) {
  if (options.share_memory) {
    options.cache.arena = std::make_shared<transport::Arena>(
        transport::ArenaOptions{.bytes_max = 2 * options.cache.bytes_max + kArenaBytesMin});
  }
  return options;
}

absl::Status Worker::Listen() {
  auto shows = Introduction::Make(loop_, options_.cache.arena.get(), options_.secure);
  if (!shows.ok()) return shows.status();
  shows_ = *std::move(shows);
  if (!shows_.why_not_shared.empty()) {
    Say(absl::StrCat("cannot share memory with consumers on this host: ", shows_.why_not_shared));
  }
  reads_ = std::make_unique<ReadService>(
      loop_, *cache_, shows_.share.get(),
      [this](int64_t id, ReadService::Found found) { FindDataset(id, std::move(found)); });
  link::Server::Options options;
  options.listen = options_.listen;
  options.link = options_.link;
  // Each of a reader's requests in flight (`reads_max` of them) may be answered with one element as
  // long as a message; dropping the link for it would only have all of them asked for again.
  options.link.write_queue_bytes_max =
      std::max(options.link.write_queue_bytes_max, 10 * options.link.message_bytes_max);
  options.allowed = options_.allowed;
  if (shows_.identity != nullptr) {
    options.accept_secure = [this] { return shows_.identity->Accept(); };
    options.admit = [this](link::LinkId, const link::Greeting& greeting) {
      return std::optional<link::Verdict>(shows_.identity->Admit(greeting));
    };
    options.allows_plain = false;
  }
  options.service_instance = options_.uid;
  options.log = [this](std::string text) { Say(std::move(text)); };
  link::ServerEvents events;
  events.request = [this](link::Request request, link::Responder responder) {
    if (ReadService::Takes(request.kind)) {
      return reads_->Take(std::move(request), std::move(responder));
    }
    responder.Fail(native::WithReason(
        absl::UnimplementedError(absl::StrFormat(
            "a worker does not answer requests of kind %d: is that the address of a worker?",
            request.kind)),
        "unknown_request"));
  };
  events.ended = [this](link::LinkId link, bool /*by_peer*/) { reads_->Ended(link); };
  auto server = link::Server::Listen(loop_, std::move(options), std::move(events));
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

void Worker::Say(std::string text) const {
  if (options_.log) options_.log(std::move(text));
}

void Worker::SendPoll(bool at_once) {
  // A worker that leaves says so at once, even if all its polls are in flight.
  if (polls_ >= kPollsMax + (drained_ != nullptr ? 1 : 0)) return;
  native::WorkerPoll poll{.worker = options_.uid,
                          .version = kWorkerVersion,
                          .address = options_.advertise.empty() ? address() : options_.advertise,
                          .host_card = {shows_.card},
                          .tags = options_.tags,
                          .host = native::ToUtf8(runtime::HostName()),
                          .pid = ::getpid(),
                          .service = service_,
                          .after = at_once ? 0 : version_,
                          .wait_us = absl::ToInt64Microseconds(options_.poll_wait),
                          .leaving = drained_ != nullptr};
  poll.resolved = resolver_.Report();
  ReportTimes(poll);
  ++polls_;
  dispatcher_->Call(native::KindOf<native::WorkerPoll>::kKind, native::Encode(poll),
                    [this, alive = std::weak_ptr(alive_),
                     leaving = poll.leaving](absl::StatusOr<std::string> answer) {
                      if (alive.expired()) return;
                      --polls_;
                      if (answer.ok()) {
                        resolver_.NoteReported();
                        leaving_told_ = leaving_told_ || leaving;
                      }
                      Polled(std::move(answer));
                    });
}

void Worker::ReportTimes(native::WorkerPoll& poll) {
  const std::map<std::string, RunTotals> all = cache_->totals();
  std::erase_if(reported_, [&](const auto& entry) { return !all.contains(entry.first); });
  for (const auto& [dataset, totals] : all) {
    RunTotals& before = reported_[dataset];
    const int64_t elements = totals.elements - before.elements;
    if (elements <= 0) continue;
    poll.times.push_back(
        {.dataset = std::stoll(dataset),
         .element_time_ns = absl::ToInt64Nanoseconds((totals.busy - before.busy) / elements)});
    before = totals;
  }
}

void Worker::Polled(absl::StatusOr<std::string> answer) {
  auto reply = answer.ok() ? native::Decode<native::WorkerPollReply>(*answer)
                           : absl::StatusOr<native::WorkerPollReply>(answer.status());
  if (!reply.ok()) {
    if (leaving_told_) return;
    if (IsRefusal(reply.status())) {
      // An older poll may hear first that who leaves is not known any more.
      leaving_told_ = drained_ != nullptr;
      if (leaving_told_) return;
      if (failed_) failed_(reply.status());
      return;
    }
    // Also of a dispatcher that has never answered: its address may be wrong.
    if (std::exchange(dispatcher_is_, DispatcherIs::kAway) != DispatcherIs::kAway) {
      Say(absl::StrCat("the dispatcher at ", dispatcher_->address(),
                       " is away, and is tried again: ", std::string(reply.status().message())));
    }
    retry_.Arm(MonotonicNow() + kRetry, [this] {
      if (polls_ == 0) SendPoll(/*at_once=*/true);
    });
    return;
  }
  if (std::exchange(dispatcher_is_, DispatcherIs::kHere) != DispatcherIs::kHere) {
    Say(absl::StrCat("registered with the dispatcher at ", dispatcher_->address()));
  }
  service_ = reply->service;
  version_ = reply->version;
  for (const int64_t dataset : reply->resolve) resolver_.Resolve(dataset);
  ForgetDatasets();
  if (leaving_told_) return;  // it is not known there any more
  // Another one that is on its way goes on from here.
  if (polls_ == 0) SendPoll(/*at_once=*/false);
}

void Worker::FindDataset(int64_t id, ReadService::Found found) {
  const auto [at, added] = datasets_.try_emplace(id);
  at->second.last_used = MonotonicNow();
  if (at->second.source != nullptr) return found(at->second.source);
  at->second.waiting.push_back(std::move(found));
  if (added) Load(id);
}

void Worker::Load(int64_t id) {
  dispatcher_->Call(native::KindOf<native::GetDataset>::kKind,
                    native::Encode(native::GetDataset{.dataset = id}),
                    [this, alive = std::weak_ptr(alive_), id](absl::StatusOr<std::string> answer) {
                      if (!alive.expired()) Loaded(id, std::move(answer));
                    });
}

void Worker::Loaded(int64_t id, absl::StatusOr<std::string> answer) {
  const auto at = datasets_.find(id);
  if (at == datasets_.end()) return;
  // It is loaded once for all who ask meanwhile.
  LOCKSTEP_DCHECK(at->second.source == nullptr);
  const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const SegmentSource>> {
    if (!answer.ok()) return answer.status();
    auto reply = native::Decode<native::GetDatasetReply>(*answer);
    if (!reply.ok()) return reply.status();
    if (!reply->resolved) {
      return absl::UnavailableError(
          absl::StrCat("the files of dataset '", reply->name, "' are not listed yet"));
    }
    auto definition = native::DecodeDefinition(reply->definition.data);
    if (!definition.ok()) return definition.status();
    auto manifest = native::DecodeManifest(reply->manifest.data);
    if (!manifest.ok()) return manifest.status();
    auto dataset = engine::Dataset::Open(
        *std::move(definition), *std::move(manifest),
        {.roots = options_.allow_paths, .functions = options_.functions, .map_files = true});
    if (!dataset.ok()) return dataset.status();
    return MakeEngineSource(*std::move(dataset));
  };
  auto source = open();
  auto waiting = std::exchange(at->second.waiting, {});
  if (source.ok()) {
    at->second.source = *source;
  } else {
    datasets_.erase(at);  // whoever asks next has it looked for again
  }
  for (ReadService::Found& found : waiting) found(source);
}

// Those that nobody has read for longest go; what is on its way stays.
void Worker::ForgetDatasets() {
  while (datasets_.size() > kDatasetsMax) {
    auto oldest = datasets_.end();
    for (auto at = datasets_.begin(); at != datasets_.end(); ++at) {
      if (at->second.source == nullptr) continue;
      if (oldest == datasets_.end() || at->second.last_used < oldest->second.last_used) {
        oldest = at;
      }
    }
    if (oldest == datasets_.end()) return;
    cache_->Drop(std::to_string(oldest->first));
    datasets_.erase(oldest);
  }
}

void Worker::Drain(std::function<void()> done) {
  LOCKSTEP_DCHECK(done != nullptr);
  if (drained_ != nullptr) return;
  drained_ = std::move(done);
  drain_until_ = MonotonicNow() + options_.drain_time;
  SendPoll(/*at_once=*/true);
  LookWhetherDrained();
}

// Consumers that were told go elsewhere, and ask no more here.
void Worker::LookWhetherDrained() {
  const bool quiet = reads_->stats().reads == reads_seen_;
  reads_seen_ = reads_->stats().reads;
  const bool over = MonotonicNow() >= drain_until_;
  if (over || (leaving_told_ && quiet) || !registered()) {
    return server_->Drain(drained_);  // it stays: who leaves does not register again
  }
  drain_.Arm(MonotonicNow() + kDrainLook, [this] { LookWhetherDrained(); });
}

}  // namespace lockstep::data
