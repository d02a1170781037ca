// What a dispatcher is given: time-outs and limits, each with its name. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "lockstep/data/dispatch/shape.h"

namespace lockstep::dispatch {

struct Options {
  MakeShape make_shape;

  // This life of the service: random, and not that of another one.
  uint64_t service = 1;
  // Ids are counted from here, beyond what was restored. Without a journal: a number that no life
  // before can have reached, so that a stale peer is never taken for a new one.
  int64_t first_id = 0;
  // What workers have to speak.
  int32_t worker_version = 1;

  // A worker is lost when nothing was heard of it for so long, or when its link has ended and it
  // has not polled again within the grace.
  absl::Duration worker_timeout = absl::Seconds(10);
  // From the end of its link, when no poll came over another.
  absl::Duration worker_grace = absl::Seconds(1);
  // A consumer's lease, from its last poll.
  absl::Duration consumer_timeout = absl::Seconds(10);
  // Rounds: nobody is made to wait at a round for a consumer that was silent for so long.
  absl::Duration consumer_grace = absl::Seconds(1);
  // A consumer that cannot reach a worker is given others for so long.
  absl::Duration unreachable_for = absl::Seconds(5);
  // `resolve_timeout`: when a worker has not listed a dataset's files within so long, another one
  // is asked too; who is done first is believed.
  absl::Duration resolve_timeout = absl::Minutes(5);
  // An unfinished iteration that has no consumer is collected after so long, a finished one after
  // the second. A dataset that no iteration uses is forgotten after the third.
  absl::Duration iteration_timeout = absl::Minutes(5);
  absl::Duration finished_timeout = absl::Hours(1);  // of a finished iteration without consumers
  absl::Duration dataset_timeout = absl::Hours(1);   // of a dataset without iterations
  // The longest that a poll is parked.
  absl::Duration poll_wait_max = absl::Seconds(3);

  // First come: grants of a consumer that it has not acknowledged. More when there are more workers
  // than that keeps busy, up to the second.
  int64_t window = 2;
  int64_t window_max = 64;
  // First come, acknowledged by hand: grants of a consumer that are not acknowledged, those whose
  // elements its program has all included.
  int64_t grants_max = 16'384;
  // Exact: segments beyond the slowest consumer. Rounds: of a lane, beyond the fastest, but no more
  // than the third beyond what the slowest needs.
  int64_t exact_window = 16;
  int64_t lane_window = 2;
  int64_t rounds_window = 64;
  // Rounds, unless they go on without who is lost: grants of an iteration that all have read and
  // that are kept for one that comes back from an older place; the oldest go first.
  int64_t rounds_history_max = 65'536;
  // So many changes of who reads are kept for it.
  size_t seatings_max = 64;
  // Exact: so many segments one consumer may need at once, most of them empty.
  int64_t exact_needs_max = 65'536;

  // Sharing out by file: so many steps from file to file (where records are shuffled, from segment
  // to segment) may lie before what the shares read next, and so many are made in one event.
  int64_t file_skips_max = 1 << 20;
  int64_t file_skips_slice_max = 1 << 14;

  // `segment_tries`: a segment fails the iteration when so many workers could not make it.
  int32_t segment_tries = 3;

  size_t datasets_max = 10'000;
  size_t definition_bytes_max = size_t{4} << 20;
  size_t manifest_bytes_max = size_t{64} << 20;
  size_t iterations_max = 10'000;
  size_t workers_max = 10'000;
  size_t consumers_max = 10'000;  // of one iteration
  size_t shares_max = 10'000;
  size_t name_bytes_max = 512;
  size_t cursor_bytes_max = 64 << 10;
  size_t leavers_max = 1024;  // first come: consumers whose lease ended, by iteration
};

}  // namespace lockstep::dispatch
