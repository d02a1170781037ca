// What an iteration is, as whoever opens it says. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dispatch/ids.h"

namespace lockstep::dispatch {

// How the elements go to the consumers.
enum class Mode {
  kFirstCome,  // each element to whoever asks first
  kExact,      // in the order of a local run: element n to consumer n % consumers
  kRounds,     // in each step all consumers read from the same worker
};
// How the segments go to the workers.
enum class Sharding {
  kDynamic,     // each segment to whoever is free
  kOff,         // each worker makes a whole pass
  kStaticData,  // segment k belongs to share k % shares
  kStaticFile,  // by the file that it begins in
  kHint,        // refused, with a text that says what to use
};
// What becomes of segments that were given to a consumer whose lease ended (first come only).
enum class Visitation {
  kExactlyOnce,  // what was not acknowledged is given to others
  kAtLeastOnce,  // they are given to others from their beginning
  kAtMostOnce,   // they are not given again
};

// Rounds: whether the others go on without a consumer that is lost.
enum class OnLost {
  kAuto,  // they wait when consumers keep cursors or are members of a job
  kWait,  // for its successor, for which all its elements are kept
  kGoOn,  // what it alone would have read is missing
};

// How far a reading is. Exact: how many elements of the dataset stand before it, of all consumers;
// rounds: the round, and how many turns of it are over.
struct ReadingPlace {
  int64_t elements = 0;
  int64_t round = 0;
  int64_t turns = 0;
  auto operator<=>(const ReadingPlace&) const = default;
};

std::string_view ModeName(Mode mode);
std::string_view ShardingName(Sharding sharding);
std::string_view VisitationName(Visitation visitation);
std::string_view OnLostName(OnLost on_lost);

// Compared fully when an iteration of the same name and repetition is opened again.
struct IterationSpec {
  std::string name;  // empty: a name of its own is made for it (`anonymous-17`)
  int64_t repetition = 0;
  DatasetId dataset;
  Mode mode = Mode::kFirstCome;
  Sharding sharding = Sharding::kDynamic;
  Visitation visitation = Visitation::kExactlyOnce;
  int32_t consumers = 0;  // exact and rounds: how many read; rounds: when it begins
  int32_t shares = 0;     // static sharding: how many
  // Static sharding: the workers by share ("host", "host:port", "host:%port%"); empty: any worker
  // takes any share.
  std::vector<std::string> worker_addresses;
  // Where it starts, when it goes on where another one stopped: the text of a cursor. All who open
  // the iteration bring the same place.
  std::string cursor;
  OnLost on_lost = OnLost::kAuto;

  // Whether any worker makes any segment.
  bool sharding_is_dynamic() const { return sharding == Sharding::kDynamic; }
  bool operator==(const IterationSpec&) const = default;
};

}  // namespace lockstep::dispatch
