#include "lockstep/data/dispatch/request_checks.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/data/dispatch/iteration_table.h"

namespace lockstep::dispatch {

namespace {

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

// Bounded far below 2^63, so that no sum of two of them overflows.
static_assert(kNumberMax <= std::numeric_limits<int64_t>::max() / 2);
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

ErrorPtr OnLostIsOfRounds() { return InvalidRequest("on_lost is of rounds only"); }

ErrorPtr NoCounts(std::string_view what) {
  static_assert(kNumberMax == int64_t{1} << 61);  // as the text says
  return InvalidRequest(absl::StrCat("the numbers of ", Text(what),
                                     " count what there cannot be: they are not negative and "
                                     "below 2^61 (use the client of this release)"));
}

// The options of the iteration, and its cursor.
ErrorPtr CheckSpec(const Options& options, const DatasetTable& datasets, const IterationSpec& spec,
                   Cursor& start) {
  const auto unsupported = [](std::string message) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kShardingUnsupported,
                     std::move(message));
  };
  if (spec.name.size() > options.name_bytes_max || spec.cursor.size() > options.cursor_bytes_max) {
    return LimitReached(
        "the name or the cursor of an iteration is too long (name_bytes_max, "
        "cursor_bytes_max)");
  }
  // Else it could be taken for one that another process opened without a name.
  if (absl::StartsWith(spec.name, kAnonymous)) {
    return InvalidRequest("iterations that begin with `anonymous-` are made by the service");
  }
  if (spec.repetition < 0) return InvalidRequest("a repetition is not negative");
  if (spec.on_lost != OnLost::kAuto && spec.mode != Mode::kRounds) return OnLostIsOfRounds();
  const Dataset* const dataset = datasets.Find(spec.dataset);
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
  if (is_static && (spec.shares <= 0 || static_cast<size_t>(spec.shares) > options.shares_max)) {
    return InvalidRequest(
        absl::StrCat("static sharding needs the number of shares, not ", spec.shares));
  }
  if (!spec.worker_addresses.empty() &&
      static_cast<int32_t>(spec.worker_addresses.size()) != spec.shares) {
    return InvalidRequest("there is one worker address for each share");
  }
  if (spec.mode != Mode::kFirstCome &&
      (spec.consumers <= 0 || static_cast<size_t>(spec.consumers) > options.consumers_max)) {
    return InvalidRequest(absl::StrCat(Text(ModeName(spec.mode)),
                                       " needs the number of consumers, not ", spec.consumers));
  }
  // Last, since a cursor is the longest thing to look at, and its mode and dataset are known by
  // now.
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

}  // namespace

ErrorPtr InvalidRequest(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   std::move(message));
}

ErrorPtr LimitReached(std::string message) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitReached, std::move(message));
}

ErrorPtr CheckRequest(const Options& options, const DatasetTable& datasets,
                      const OpenIteration& request, Cursor& start) {
  const IterationSpec& spec = request.spec;
  // The spec first: it says what an index means.
  if (ErrorPtr error = CheckSpec(options, datasets, spec, start); error != nullptr) return error;
  if (request.consumer.empty() || request.consumer.size() > options.name_bytes_max) {
    return InvalidRequest("a consumer has a name, of at most name_bytes_max bytes");
  }
  if (request.host.size() > options.name_bytes_max ||
      request.machine.size() > options.name_bytes_max) {
    return InvalidRequest(
        "a consumer's host and machine have at most name_bytes_max "
        "bytes each");
  }
  if (spec.mode == Mode::kExact && request.index >= spec.consumers) {
    return InvalidRequest(absl::StrCat("consumer ", request.index, " of ", spec.consumers,
                                       ": they are counted from 0"));
  }
  if (!AreCounts(request.have) || !IsPlace(request.from.value_or(ReadingPlace{}))) {
    return NoCounts(absl::StrCat("the request of consumer ", request.consumer));
  }
  return nullptr;
}

ErrorPtr CheckRequest(const ConsumerPoll& request) {
  if (AreCounts(request)) return nullptr;
  return NoCounts(absl::StrCat("a poll of consumer ", request.consumer.value()));
}

ErrorPtr CheckRequest(const CloseConsumer& request) {
  if (AreCounts(request.acks) && IsRound(request.round) && IsPlace(request.end)) return nullptr;
  return NoCounts(absl::StrCat("what consumer ", request.consumer.value(), " says last"));
}

// Consumers that disagree about the options would each read something else.
ErrorPtr CheckSame(const IterationLedger& iteration, const DatasetTable& datasets,
                   const IterationSpec& spec, const Cursor& start) {
  const IterationSpec& there = iteration.spec();
  std::vector<std::string> differences;
  const auto name_of = [&](DatasetId id) {
    const Dataset* dataset = datasets.Find(id);
    return dataset == nullptr ? absl::StrCat(id.value()) : dataset->name;
  };
  if (there.dataset != spec.dataset) {
    differences.push_back(absl::StrCat("the dataset is ", name_of(there.dataset), " there and ",
                                       name_of(spec.dataset), " here"));
  }
  // All differences at once: whoever mends one need not find the next by another try.
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
  // By place, not by text: consumers bring their own cursors of one place.
  if (!SamePlace(iteration.start(), start) || there.cursor.empty() != spec.cursor.empty()) {
    differences.push_back("the cursors are not of the same place");
  }
  if (differences.empty()) return nullptr;
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kIterationDiffers,
                   absl::StrCat("iteration ", iteration.Name(),
                                " is another one: ", absl::StrJoin(differences, "; ")));
}

}  // namespace lockstep::dispatch
