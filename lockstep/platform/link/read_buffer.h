// Bytes of a stream that have come and wait to be read. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::link {

// Filled at the back, read from the front. Memory that a burst needed is given back once all of it
// has been read.
//
// Threads: thread-compatible. Bounds: the caller reads before it prepares more; what is unread then
// moves to the front, so its size is that of the unread and of the room.
class ReadBuffer {
 public:
  // Room for `bytes` behind what has come, until the next call of `Prepare`. Ends views of
  // `unread()`.
  std::span<char> Prepare(size_t bytes);
  // So many bytes have come, which is no more than the room.
  void Commit(size_t bytes);

  // What has come and was not consumed. Until the next call of `Prepare`, `Consume` or `Clear`.
  std::string_view unread() const { return {buffer_.data() + read_, filled_ - read_}; }
  bool empty() const { return read_ == filled_; }
  // The first `bytes` of `unread()` have been read.
  void Consume(size_t bytes);

  // Nothing is unread; gives the memory back.
  void Clear();

  // What it holds, as it costs.
  size_t memory() const { return buffer_.capacity(); }

 private:
  std::string buffer_;  // its size is the room that there is
  size_t read_ = 0;     // bytes at the front of `buffer_` that have been read
  size_t filled_ = 0;   // bytes at the front of `buffer_` that have come
};

}  // namespace lockstep::link
