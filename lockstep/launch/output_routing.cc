#include "lockstep/launch/output_routing.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::launch {
namespace {

bool ParseStreams(const std::string& text, Streams& streams) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return false;
  streams = static_cast<Streams>(text[0] - '0');
  return true;
}

}  // namespace

absl::StatusOr<StreamsOfRanks> StreamsOfRanks::Parse(const std::string& text) {
  StreamsOfRanks streams;
  if (ParseStreams(text, streams.all_)) return streams;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> pair = absl::StrSplit(part, ':');
    int32_t local = 0;
    Streams which = 0;
    if (pair.size() != 2 || !absl::SimpleAtoi(pair[0], &local) || local < 0 ||
        !ParseStreams(pair[1], which)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text,
          "': must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both), or by local "
          "rank, as 0:3,1:2"));
    }
    streams.some_[local] = which;
  }
  return streams;
}

Streams StreamsOfRanks::Of(int32_t local) const {
  const auto found = some_.find(local);
  return found != some_.end() ? found->second : all_;
}

bool StreamsOfRanks::none() const {
  return all_ == 0 &&
         std::all_of(some_.begin(), some_.end(), [](const auto& one) { return one.second == 0; });
}

absl::StatusOr<std::set<int32_t>> ParseRanks(const std::string& text) {
  std::set<int32_t> ranks;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    int32_t rank = 0;
    if (!absl::SimpleAtoi(part, &rank) || rank < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "': must be local ranks with commas between, as 0,2"));
    }
    ranks.insert(rank);
  }
  return ranks;
}

bool OutputRouting::ToFile(int32_t local, Streams stream) const {
  if (!files) return false;
  if (!redirects && !tee) return true;
  return ((redirects && (redirects->Of(local) & stream) != 0) ||
          (tee && (tee->Of(local) & stream) != 0));
}

bool OutputRouting::ToConsole(int32_t local, Streams stream) const {
  if (!shown.empty() && !shown.contains(local)) return false;
  const bool teed = tee && (tee->Of(local) & stream) != 0;
  return teed || !files || !redirects || (redirects->Of(local) & stream) == 0;
}

}  // namespace lockstep::launch
