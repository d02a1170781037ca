#include "lockstep/data/dispatch/iteration_spec.h"

namespace lockstep::dispatch {

std::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kFirstCome:
      return "first_come";
    case Mode::kExact:
      return "exact";
    case Mode::kRounds:
      return "rounds";
  }
  return "?";
}

std::string_view ShardingName(Sharding sharding) {
  switch (sharding) {
    case Sharding::kDynamic:
      return "dynamic";
    case Sharding::kOff:
      return "off";
    case Sharding::kStaticData:
      return "static_data";
    case Sharding::kStaticFile:
      return "static_file";
    case Sharding::kHint:
      return "hint";
  }
  return "?";
}

std::string_view VisitationName(Visitation visitation) {
  switch (visitation) {
    case Visitation::kExactlyOnce:
      return "exactly_once";
    case Visitation::kAtLeastOnce:
      return "at_least_once";
    case Visitation::kAtMostOnce:
      return "at_most_once";
  }
  return "?";
}

std::string_view OnLostName(OnLost on_lost) {
  switch (on_lost) {
    case OnLost::kAuto:
      return "auto";
    case OnLost::kWait:
      return "wait";
    case OnLost::kGoOn:
      return "go_on";
  }
  return "?";
}

}  // namespace lockstep::dispatch
