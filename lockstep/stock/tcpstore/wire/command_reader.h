// Bytes of one connection of torch's TCPStore client -> commands. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/wire/receive_buffer.h"

namespace lockstep::wire::tcpstore {

namespace machine = ::lockstep::tcpstore;

// What a connection begins with: the command VALIDATE and this number.
inline constexpr uint32_t kValidateMagic = 0x3C85F7CE;

// The bytes that announce each command.
enum class Op : uint8_t {
  kValidate = 0,
  kSet = 1,
  kCompareSet = 2,
  kGet = 3,
  kAdd = 4,
  kCheck = 5,
  kWait = 6,
  kCountKeys = 7,
  kDeleteKey = 8,
  kAppend = 9,
  kMultiGet = 10,
  kMultiSet = 11,
  kCancelWait = 12,
  kPing = 13,
  kQueuePush = 14,
  kQueuePop = 15,
  kQueueLength = 16,
  kListKeys = 17,
  kBarrier = 18,
};

// Takes the bytes in any cuts, and gives the commands that are whole:
//
//   reader.Prepare() is where to read to; reader.Commit(n);
//   while (command = reader.Next()) ...
//
// The first command has to be VALIDATE, which is taken here. Anything else than the protocol is
// an error that says what it was: HTTP, TLS, a command before VALIDATE. After an error nothing
// more is read.
//
// Threads: thread-compatible. Bounds: StoreOptions; memory follows what has come, not what was
// announced. Time: linear in the bytes, however they are cut.
class CommandReader {
 public:
  // `options` outlives the reader.
  explicit CommandReader(const machine::StoreOptions& options) : options_(options) {}
  // Of bytes that have all come, behind a VALIDATE.
  CommandReader(const machine::StoreOptions& options, absl::string_view bytes)
      : options_(options), validated_(true) {
    buffer_.Fill(bytes);
  }

  // Room for more bytes, at least one. Views of the last command end here.
  absl::Span<char> Prepare();
  // So many bytes have come, which is no more than the room.
  void Commit(size_t bytes) { buffer_.Commit(bytes); }

  // The next whole command, whose views hold until the next call of anything but `validated`.
  // False: more bytes are needed. INVALID_ARGUMENT: this is not the protocol. RESOURCE_EXHAUSTED: a
  // limit, named.
  absl::StatusOr<bool> Next(machine::Command& command);

  // The last command as it came; holds as long as its views.
  absl::string_view bytes() const { return buffer_.unread().substr(0, consumed_); }
  // The client has said VALIDATE.
  bool validated() const { return validated_; }
  // Bytes of a command that is not whole yet, or not asked for.
  size_t pending() const { return buffer_.size(); }
  // What it holds, as it costs.
  size_t memory() const { return buffer_.memory() + texts_.capacity() * sizeof(texts_[0]); }

 private:
  // What follows the byte of a command.
  struct Shape;
  static const Shape* ShapeOf(uint8_t op);

  // The bytes of the command so far are `at_least`; false: they are not all there yet.
  bool Have(size_t at_least);
  template <class Integer>
  Integer Read(size_t at) const;
  absl::string_view Text(size_t i) const;

  absl::StatusOr<bool> Validate();
  absl::Status Foreign() const;
  absl::StatusOr<bool> ReadHead();
  absl::StatusOr<bool> ReadTexts();
  machine::Keys AllKeys() const;
  std::vector<machine::Set> AllPairs() const;
  void Make(machine::Command& command) const;

  const machine::StoreOptions& options_;
  ReceiveBuffer buffer_;
  bool validated_ = false;

  // Of the command that is read now; places count from the front of `buffer_`.
  const Shape* shape_ = nullptr;
  size_t needed_ = 1;   // so many bytes of it have to come before there is anything to do
  size_t scanned_ = 0;  // so many are understood
  size_t texts_left_ = 0;
  std::vector<std::pair<size_t, size_t>> texts_;  // where each is, and how long
  size_t consumed_ = 0;                           // the length of the command that was given last
};

}  // namespace lockstep::wire::tcpstore
