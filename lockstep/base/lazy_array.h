// An array of a known size whose elements cost memory only once they are written to. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep {

// Elements that nobody wrote to are all alike: as they are made. They come to be a few at a time.
//
// Threads: thread-compatible. References hold until `Clear`.
template <class Element>
class LazyArray {
 public:
  explicit LazyArray(size_t size) : chunks_((size + kChunk - 1) / kChunk), size_(size) {}

  size_t size() const { return size_; }  // as constructed, however few were written to

  const Element& operator[](size_t i) const {
    LOCKSTEP_CHECK(i < size_);
    const auto& chunk = chunks_[i / kChunk];
    return chunk == nullptr ? Unwritten() : chunk[i % kChunk];
  }

  // To write to it.
  Element& Mutable(size_t i) {
    LOCKSTEP_CHECK(i < size_);
    auto& chunk = chunks_[i / kChunk];
    if (chunk == nullptr) {
      chunk = std::make_unique<Element[]>(kChunk);
      made_ += kChunk;
    }
    return chunk[i % kChunk];
  }

  // `visit(Element&)`: each that was written to, and neighbours of those.
  template <class Visit>
  void ForEachWritten(Visit visit) {
    for (auto& chunk : chunks_) {
      if (chunk != nullptr) std::for_each(chunk.get(), chunk.get() + kChunk, visit);
    }
  }

  // Whether any is so of those that were written to, and neighbours of those.
  template <class Is>
  bool AnyWritten(Is is) const {
    return std::any_of(chunks_.begin(), chunks_.end(), [&is](const auto& chunk) {
      return chunk != nullptr && std::any_of(chunk.get(), chunk.get() + kChunk, is);
    });
  }

  // All are as in the beginning.
  void Clear() {
    for (auto& chunk : chunks_) chunk.reset();
    made_ = 0;
  }

  // What it holds, beyond what its elements point to.
  size_t memory() const { return made_ * sizeof(Element) + chunks_.size() * sizeof(chunks_[0]); }

 private:
  static constexpr size_t kChunk = 16;

  static const Element& Unwritten() {
    static const Element* const kUnwritten = new Element();
    return *kUnwritten;
  }

  std::vector<std::unique_ptr<Element[]>> chunks_;  // null: none of it was written to
  size_t size_;
  size_t made_ = 0;
};

}  // namespace lockstep
