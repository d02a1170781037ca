// Which output of which process goes where. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// Which of its two streams, as torchrun counts them: 0 none, 1 standard output, 2 standard error,
// 3 both.
using Streams = uint8_t;
inline constexpr Streams kOutputStream = 1;
inline constexpr Streams kErrorStream = 2;

// "3" for all processes, or "0:1,2:3" for some of them by their local rank; the others none.
class StreamsOfRanks {
 public:
  // INVALID_ARGUMENT says what it should look like.
  static absl::StatusOr<StreamsOfRanks> Parse(const std::string& text);

  Streams Of(int32_t local) const;
  // Of no process any stream: "0".
  bool none() const;

 private:
  Streams all_ = 0;
  std::map<int32_t, Streams> some_;
};

// "0,2": local ranks.
absl::StatusOr<std::set<int32_t>> ParseRanks(const std::string& text);

// What torchrun's flags of these names say. Without any of them all goes to the console, and into
// files as well where there is a folder for them.
struct OutputRouting {
  bool files = false;                       // there is a folder
  std::optional<StreamsOfRanks> redirects;  // into files only
  std::optional<StreamsOfRanks> tee;        // into files and to the console
  std::set<int32_t> shown;                  // local ranks on the console; empty: all

  bool ToFile(int32_t local, Streams stream) const;
  bool ToConsole(int32_t local, Streams stream) const;
};

}  // namespace lockstep::launch
