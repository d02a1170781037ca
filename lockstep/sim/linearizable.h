// Whether what clients saw of one key can have happened one after the other. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::sim {

// One operation on the key, as its client saw it.
struct KeyOperation {
  enum class Kind { kSet, kSetIfAbsent, kCompareAndSet, kAdd, kMax, kDelete, kRead };

  Kind kind = Kind::kRead;
  std::string value;                    // that was to be written
  std::optional<std::string> expected;  // of a compare-and-set; none: that there is no value
  int64_t number = 0;                   // of an addition or a maximum

  // In which order things happened everywhere: asked, and answered; not answered: never.
  int64_t asked = 0;
  std::optional<int64_t> answered;
  // The answer: whether it was done (a write), and what was read or came out of it.
  bool done = false;
  std::optional<std::string> result;
  std::string who;
};

// How many operations of one key are looked at together: the search may take exponential time.
inline constexpr size_t kKeyOperationsMax = 64;

// Empty when there is an order of all answered operations, and of some that were not, in which each
// comes between its question and its answer and sees what those before it have done. Otherwise says
// so. The key has no value at first. After Wing and Gong, with the states seen remembered.
std::string CheckLinearizable(const std::vector<KeyOperation>& operations);

std::string Describe(const KeyOperation& operation);

}  // namespace lockstep::sim
