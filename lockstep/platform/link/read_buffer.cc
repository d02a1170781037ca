#include "lockstep/platform/link/read_buffer.h"

#include <cstring>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::link {
namespace {

// A buffer that has grown beyond this is given back when it is empty.
constexpr size_t kKeptBytesMax = size_t{64} << 10;

}  // namespace

std::span<char> ReadBuffer::Prepare(size_t bytes) {
  if (empty()) {
    read_ = filled_ = 0;
    // Swapped: a string that is assigned an empty one keeps its memory.
    if (buffer_.size() > kKeptBytesMax && bytes <= kKeptBytesMax) {
      buffer_.clear();
      buffer_.shrink_to_fit();
    }
  } else if (buffer_.size() - filled_ < bytes) {
    // What is left of a frame moves to the front: less than a frame each time.
    std::memmove(buffer_.data(), buffer_.data() + read_, filled_ - read_);
    filled_ -= std::exchange(read_, 0);
  }
  if (buffer_.size() - filled_ < bytes) buffer_.resize(filled_ + bytes);
  LOCKSTEP_DCHECK(read_ <= filled_ && filled_ <= buffer_.size() - bytes);
  return std::span(buffer_).subspan(filled_, bytes);
}

void ReadBuffer::Commit(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= buffer_.size() - filled_);
  filled_ += bytes;
}

void ReadBuffer::Consume(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= filled_ - read_);
  read_ += bytes;
}

void ReadBuffer::Clear() {
  std::string().swap(buffer_);
  read_ = filled_ = 0;
}

}  // namespace lockstep::link
