// Bytes of one connection that have come and wait to be read. Pure.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lockstep::wire::tcpstore {

// Filled at the back, read from the front. Its room grows while reads fill it and shrinks while
// they do not: many connections say little, a few say much.
//
// Threads: thread-compatible. Bounds: memory follows what has come, not what was announced; what a
// burst needed is given back once all of it has been read. Time: linear in the bytes.
class ReceiveBuffer {
 public:
  // Room for more bytes, at least one. `needed` bytes in all, the unread included, were announced;
  // that is believed as far as the like of it has come. Ends views of `unread()`.
  absl::Span<char> Prepare(size_t needed);
  // So many bytes have come, which is no more than the room.
  void Commit(size_t bytes);

  // These bytes have come, all at once, to an empty buffer.
  void Fill(absl::string_view bytes);

  // What has come and was not consumed; good until `Prepare`.
  absl::string_view unread() const { return {bytes_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  // The first `bytes` of `unread()` have been read. Their views hold until `Prepare`.
  void Consume(size_t bytes);

  // What it holds, as it costs.
  size_t memory() const { return capacity_; }

 private:
  void MakeRoom(size_t room);

  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  size_t begin_ = 0;         // of the unread
  size_t end_ = 0;           // of what has come
  size_t read_bytes_ = 512;  // how much is read at a time: more while more comes
};

}  // namespace lockstep::wire::tcpstore
