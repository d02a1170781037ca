// What the dispatcher has to know of a dataset's plan: how many segments there are. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/data/dispatch/error.h"

namespace lockstep::dispatch {

// Of segments and of elements: the dataset repeats for ever.
inline constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

// The plan of one dataset, as far as it is handed out. Filled by lockstep/data/plan in the
// programs, by toys in tests. Pure functions of the dataset: the same whenever it is made.
class Shape {
 public:
  virtual ~Shape() = default;
  // Segments are 0 .. segments()-1; kInfinite for a dataset without an end.
  virtual int64_t segments() const = 0;
  // How many elements the segment has, when that is arithmetic (nothing filters).
  virtual std::optional<int64_t> ElementsOf(int64_t segment) const = 0;
  // How many it has at most, whatever is filtered.
  virtual int64_t ElementsMost(int64_t segment) const = 0;
  // For sharding by file: how many files there are, and which one the segment begins in. 0: the
  // dataset has no files.
  virtual int64_t files() const { return 0; }
  virtual int64_t FileOf(int64_t /*segment*/) const { return 0; }  // from 0 up
  // Whether anything is read of the file.
  virtual bool HasRecords(int64_t /*file*/) const { return true; }
  // A later segment, up to which all begin in the same file as this one: the further, the faster
  // other files are found.
  virtual int64_t FileUntil(int64_t segment) const { return segment + 1; }
};

struct ShapeOrError {
  std::shared_ptr<const Shape> shape;
  ErrorPtr error;  // set when there is no shape
};

// Makes the plan of a dataset: definition and manifest are bytes that only the shell understands.
using MakeShape =
    std::function<ShapeOrError(const std::string& definition, const std::string& manifest)>;

}  // namespace lockstep::dispatch
