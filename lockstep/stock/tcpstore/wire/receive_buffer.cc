#include "lockstep/stock/tcpstore/wire/receive_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::wire::tcpstore {
namespace {

constexpr size_t kReadBytesMin = 512;
constexpr size_t kReadBytesMax = size_t{64} << 10;
// A buffer above this is given back when it is empty.
constexpr size_t kKeptBytesMax = size_t{256} << 10;
static_assert(kReadBytesMin <= kReadBytesMax);
static_assert(kReadBytesMax <= kKeptBytesMax);  // or what is read at a time would be given back

}  // namespace

absl::Span<char> ReceiveBuffer::Prepare(size_t needed) {
  if (empty()) {
    begin_ = end_ = 0;
    if (capacity_ > kKeptBytesMax) {
      bytes_.reset();
      capacity_ = 0;
    }
  }
  const size_t missing = needed > size() ? needed - size() : 0;
  const size_t room = std::max(read_bytes_, std::min(missing, size() + kReadBytesMax));
  if (capacity_ - end_ < room) MakeRoom(room);
  return {bytes_.get() + end_, capacity_ - end_};
}

// Moves the unread to the front, of a larger place where this one is too small.
void ReceiveBuffer::MakeRoom(size_t room) {
  const size_t have = size();
  if (capacity_ - have >= room && begin_ > 0) {
    std::memmove(bytes_.get(), bytes_.get() + begin_, have);
  } else {
    capacity_ = have + room;
    std::unique_ptr<char[]> larger(new char[capacity_]);
    if (have > 0) std::memcpy(larger.get(), bytes_.get() + begin_, have);
    bytes_ = std::move(larger);
  }
  begin_ = 0;
  end_ = have;
}

void ReceiveBuffer::Commit(size_t bytes) {
  LOCKSTEP_CHECK(bytes <= capacity_ - end_);
  end_ += bytes;
  if (bytes >= read_bytes_) {
    read_bytes_ = std::min(read_bytes_ * 8, kReadBytesMax);
  } else if (bytes < read_bytes_ / 4) {
    read_bytes_ = std::max(read_bytes_ / 2, kReadBytesMin);
  }
}

void ReceiveBuffer::Fill(absl::string_view bytes) {
  LOCKSTEP_DCHECK(empty());
  capacity_ = bytes.size();
  bytes_.reset(new char[capacity_]);
  if (!bytes.empty()) std::memcpy(bytes_.get(), bytes.data(), bytes.size());
  begin_ = 0;
  end_ = bytes.size();
}

void ReceiveBuffer::Consume(size_t bytes) {
  LOCKSTEP_DCHECK(bytes <= size());
  begin_ += bytes;
}

}  // namespace lockstep::wire::tcpstore
