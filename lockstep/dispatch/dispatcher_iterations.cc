// Iterations: what is lawful, and what is the same.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

namespace {

constexpr char kAnonymous[] = "anonymous-";

template <class T>
void Compare(std::vector<std::string>& differences, const char* what, const T& there,
             const T& asked) {
  if (there == asked) return;
  differences.push_back(absl::StrCat(what, " is ", there, " there and ", asked, " here"));
}

std::string Text(std::string_view text) { return std::string(text); }

bool AreCounts(const std::vector<LaneAck>& acks) {
  return std::all_of(acks.begin(), acks.end(),
                     [](const LaneAck& ack) { return IsCount(ack.seq) && IsCount(ack.elements); });
}

// -1: it has begun none.
bool IsRound(int64_t round) { return round == -1 || IsCount(round); }

bool IsPlace(const ReadingPlace& place) {
  return IsCount(place.elements) && IsCount(place.round) && IsCount(place.turns);
}

bool AreCounts(const ConsumerPoll& poll) {
  const auto is_progress = [](const LaneProgress& progress) {
    return IsCount(progress.seq) && IsCount(progress.needs);
  };
  const auto is_count = [](const SegmentCount& count) {
    return IsCount(count.seq) && IsCount(count.elements);
  };
  const auto is_failure = [](const SegmentFailure& failure) {
    return IsCount(failure.seq) && IsCount(failure.segment);
  };
  return AreCounts(poll.acks) && IsCount(poll.handed_before) && IsCount(poll.unacknowledged) &&
         IsRound(poll.round) && IsPlace(poll.end) &&
         std::all_of(poll.progress.begin(), poll.progress.end(), is_progress) &&
         std::all_of(poll.counts.begin(), poll.counts.end(), is_count) &&
         std::all_of(poll.failures.begin(), poll.failures.end(), is_failure);
}

bool HasConsumer(const IterationLedger& ledger, const OpenIteration& request) {
  const ConsumerEntry* const consumer = ledger.Find(request.consumer);
  return consumer != nullptr && consumer->life == request.life;
}

ErrorPtr OnLostIsOfRounds() { return InvalidRequest("on_lost is of rounds only"); }

ErrorPtr NoCounts(std::string_view what) {
  return InvalidRequest(absl::StrCat("the numbers of ", Text(what),
                                     " count what there cannot be: they are not negative and "
                                     "below 2^61 (use the client of this release)"));
}

}  // namespace

Iteration* Dispatcher::Impl::FindIteration(IterationId id) {
  const auto found = iterations_.find(id);
  return found == iterations_.end() ? nullptr : found->second.get();
}

ErrorPtr Dispatcher::Impl::UnknownIteration(IterationId id) {
  return MakeError(absl::StatusCode::kNotFound, reason::kUnknownIteration,
                   absl::StrCat("there is no iteration ", id.value(),
                                ": it was collected, or the service is another one"));
}

ErrorPtr Dispatcher::Impl::CheckSpec(const IterationSpec& spec, const Dataset*& dataset,
                                     Cursor& start) const {
  const auto unsupported = [](std::string message) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kShardingUnsupported,
                     std::move(message));
  };
  if (spec.name.size() > state_.options.name_bytes_max ||
      spec.cursor.size() > state_.options.cursor_bytes_max) {
    return LimitReached(
        "the name or the cursor of an iteration is too long (name_bytes_max, "
        "cursor_bytes_max)");
  }
  if (absl::StartsWith(spec.name, kAnonymous)) {
    return InvalidRequest("iterations that begin with `anonymous-` are made by the service");
  }
  if (spec.repetition < 0) return InvalidRequest("a repetition is not negative");
  if (spec.on_lost != OnLost::kAuto && spec.mode != Mode::kRounds) return OnLostIsOfRounds();
  dataset = FindDataset(spec.dataset);
  if (dataset == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, reason::kDatasetUnknown,
                     absl::StrCat("there is no dataset ", spec.dataset.value()));
  }
  const bool is_static =
      spec.sharding == Sharding::kStaticData || spec.sharding == Sharding::kStaticFile;
  if (spec.sharding == Sharding::kHint) {
    return unsupported("sharding by hint is not supported: share out statically by file or data");
  }
  if (spec.sharding == Sharding::kOff && spec.mode != Mode::kFirstCome) {
    return unsupported(
        absl::StrCat("without sharding each worker makes a whole pass: that is "
                     "first_come only, not ",
                     Text(ModeName(spec.mode))));
  }
  if (is_static && spec.mode == Mode::kExact) {
    return unsupported("exact order has one lane, which is not shared out: use dynamic");
  }
  if (is_static &&
      (spec.shares <= 0 || static_cast<size_t>(spec.shares) > state_.options.shares_max)) {
    return InvalidRequest(
        absl::StrCat("static sharding needs the number of shares, not ", spec.shares));
  }
  if (!spec.worker_addresses.empty() &&
      static_cast<int32_t>(spec.worker_addresses.size()) != spec.shares) {
    return InvalidRequest("there is one worker address for each share");
  }
  if (spec.mode != Mode::kFirstCome &&
      (spec.consumers <= 0 || static_cast<size_t>(spec.consumers) > state_.options.consumers_max)) {
    return InvalidRequest(absl::StrCat(Text(ModeName(spec.mode)),
                                       " needs the number of consumers, not ", spec.consumers));
  }
  if (spec.cursor.empty()) return nullptr;
  const std::variant<Cursor, ErrorPtr> decoded = DecodeCursor(spec.cursor);
  if (std::holds_alternative<ErrorPtr>(decoded)) return std::get<ErrorPtr>(decoded);
  start = std::get<Cursor>(decoded);
  const auto mismatch = [](std::string message) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                     std::move(message));
  };
  if (start.mode != spec.mode) {
    return mismatch(absl::StrCat("the cursor is of a reading in mode ", Text(ModeName(start.mode)),
                                 ", and this is ", Text(ModeName(spec.mode))));
  }
  if (start.definition != dataset->identity) {
    return mismatch(absl::StrCat("the cursor is of another dataset: identity ", start.definition,
                                 ", and this is ", dataset->identity));
  }
  if (is_static) return mismatch("a cursor goes on only where segments are shared out dynamically");
  return nullptr;
}

ErrorPtr Dispatcher::Impl::CheckSame(const Iteration& iteration, const IterationSpec& spec,
                                     const Cursor& start) const {
  const IterationSpec& there = iteration.spec();
  std::vector<std::string> differences;
  const auto name_of = [&](DatasetId id) {
    const Dataset* dataset = FindDataset(id);
    return dataset == nullptr ? absl::StrCat(id.value()) : dataset->name;
  };
  if (there.dataset != spec.dataset) {
    differences.push_back(absl::StrCat("the dataset is ", name_of(there.dataset), " there and ",
                                       name_of(spec.dataset), " here"));
  }
  Compare(differences, "the order", Text(ModeName(there.mode)), Text(ModeName(spec.mode)));
  Compare(differences, "the sharding", Text(ShardingName(there.sharding)),
          Text(ShardingName(spec.sharding)));
  Compare(differences, "the visitation", Text(VisitationName(there.visitation)),
          Text(VisitationName(spec.visitation)));
  Compare(differences, "on_lost", Text(OnLostName(there.on_lost)), Text(OnLostName(spec.on_lost)));
  Compare(differences, "the number of consumers", there.consumers, spec.consumers);
  Compare(differences, "the number of shares", there.shares, spec.shares);
  Compare(differences, "the list of workers", absl::StrJoin(there.worker_addresses, ","),
          absl::StrJoin(spec.worker_addresses, ","));
  if (!SamePlace(iteration.ledger().start(), start) ||
      there.cursor.empty() != spec.cursor.empty()) {
    differences.push_back("the cursors are not of the same place");
  }
  if (differences.empty()) return nullptr;
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kIterationDiffers,
                   absl::StrCat("iteration ", iteration.ledger().Name(),
                                " is another one: ", absl::StrJoin(differences, "; ")));
}

void Dispatcher::Impl::On(Time now, const OpenIteration& request, Effects& out) {
  if (stopped_) {
    return out.Fail(request.call, MakeError(absl::StatusCode::kUnavailable, reason::kStopped,
                                            "the data service is stopping"));
  }
  const Dataset* dataset = nullptr;
  Cursor start{.mode = request.spec.mode};
  if (ErrorPtr error = CheckSpec(request.spec, dataset, start); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  if (request.consumer.empty() || request.consumer.size() > state_.options.name_bytes_max) {
    return out.Fail(request.call,
                    InvalidRequest("a consumer has a name, of at most name_bytes_max bytes"));
  }
  if (request.host.size() > state_.options.name_bytes_max ||
      request.machine.size() > state_.options.name_bytes_max) {
    return out.Fail(request.call,
                    InvalidRequest("a consumer's host and machine have at most name_bytes_max "
                                   "bytes each"));
  }
  if (request.spec.mode != Mode::kFirstCome && request.index >= request.spec.consumers &&
      request.spec.mode == Mode::kExact) {
    return out.Fail(request.call, InvalidRequest(absl::StrCat("consumer ", request.index, " of ",
                                                              request.spec.consumers,
                                                              ": they are counted from 0")));
  }
  if (!AreCounts(request.have) || !IsPlace(request.from.value_or(ReadingPlace{}))) {
    return out.Fail(request.call,
                    NoCounts(absl::StrCat("the request of consumer ", request.consumer)));
  }
  Iteration* iteration = nullptr;
  if (request.spec.name.empty()) {
    // Asked once more, since the answer was lost.
    for (auto& [id, other] : iterations_) {
      if (absl::StartsWith(other->spec().name, kAnonymous) &&
          HasConsumer(other->ledger(), request)) {
        iteration = other.get();
      }
    }
  } else if (const auto key = by_key_.find({request.spec.name, request.spec.repetition});
             key != by_key_.end()) {
    iteration = FindIteration(key->second);
  }
  if (iteration != nullptr) {
    if (ErrorPtr error = CheckSame(*iteration, request.spec, start); error != nullptr) {
      return out.Fail(request.call, std::move(error));
    }
  } else {
    if (iterations_.size() >= state_.options.iterations_max) {
      return out.Fail(request.call, LimitReached(absl::StrCat("there are ", iterations_.size(),
                                                              " iterations (iterations_max)")));
    }
    const IterationId id(state_.ids.Next());
    IterationSpec spec = request.spec;
    if (spec.name.empty()) spec.name = absl::StrCat(kAnonymous, id.value());
    Commit(now, record::IterationOpened{.iteration = id, .spec = std::move(spec)}, out);
    iteration = FindIteration(id);
    SetDatasetIdle(now, dataset->id);
    StartIterations(now, *FindDataset(dataset->id), out);
  }
  iteration->Handle(now, request, out);
}

void Dispatcher::Impl::On(Time now, const ConsumerPoll& request, Effects& out) {
  Iteration* iteration = FindIteration(request.iteration);
  if (iteration == nullptr) return out.Fail(request.call, UnknownIteration(request.iteration));
  if (!AreCounts(request)) {
    return out.Fail(request.call,
                    NoCounts(absl::StrCat("a poll of consumer ", request.consumer.value())));
  }
  iteration->Handle(now, request, out);
}

void Dispatcher::Impl::On(Time now, const CloseConsumer& request, Effects& out) {
  Iteration* iteration = FindIteration(request.iteration);
  if (iteration == nullptr) return out.Succeed(request.call, ConsumerClosed{});
  if (!AreCounts(request.acks) || !IsRound(request.round) || !IsPlace(request.end)) {
    return out.Fail(request.call, NoCounts(absl::StrCat("what consumer ", request.consumer.value(),
                                                        " says last")));
  }
  iteration->Handle(now, request, out);
}

void Dispatcher::Impl::Collect(Time now, IterationId id, Effects& out) {
  Iteration* iteration = FindIteration(id);
  if (iteration == nullptr || iteration->ledger().HasConsumersThere()) return;
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", iteration->ledger().Name(),
                                         " is collected: nobody reads it"));
  const DatasetId dataset = iteration->spec().dataset;
  // What was given to its readers is given no more.
  iteration->End(
      now, MakeError(absl::StatusCode::kAborted, reason::kIterationCollected, "collected"), out);
  iteration->Abandon(nullptr, out);
  Commit(now, record::IterationCollected{.iteration = id}, out);
  state_.workers.TouchAll();
  SetDatasetIdle(now, dataset);
}

}  // namespace lockstep::dispatch
