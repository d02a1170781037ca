// Answers of a store -> bytes for one connection, in order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/stock/tcpstore/effects.h"

namespace lockstep::wire::tcpstore {

// Bytes that wait to be sent. Short values are copied; longer ones are shared with the store, so
// that a thousand connections that fetch one cost its bytes once.
//
// Threads: thread-compatible. Bounds: the owner's, who looks at `bytes`.
class Outbox {
 public:
  // Encodes it behind what waits.
  void Push(const ::lockstep::tcpstore::Answer& answer);

  // The first pieces, at most `pieces_max` of them; they hold until the next call of `Push` or
  // `Sent`.
  void Peek(size_t pieces_max, std::vector<absl::string_view>& pieces) const;
  // So many of the first bytes are out: their memory goes.
  void Sent(size_t bytes);

  bool empty() const { return bytes_ == 0; }  // nothing waits
  size_t bytes() const { return bytes_; }     // that wait to be sent
  // What it holds, as it costs: what others send as well is counted in part.
  size_t memory() const { return own_bytes_ + shared_cost_ + pieces_.size() * sizeof(Piece); }
  // All that ever left.
  uint64_t sent() const { return sent_in_all_; }

 private:
  // Bytes of its own, then those of a value.
  struct Piece {
    std::string own;
    ::lockstep::tcpstore::ValuePtr shared;
    size_t cost = 0;  // of `shared`

    size_t size() const { return own.size() + (shared ? shared->size() : 0); }
  };

  Piece& Last();
  void AppendOwn(const char* bytes, size_t size);
  void DropFront();
  template <class Integer>
  void PutInteger(Integer value);
  void PutText(absl::string_view text);
  void PutValue(const ::lockstep::tcpstore::ValuePtr& value);
  // Its bytes, of which `cost` are counted here.
  void Share(const ::lockstep::tcpstore::ValuePtr& value, size_t cost);

  std::deque<Piece> pieces_;
  size_t sent_ = 0;  // of the first piece
  size_t bytes_ = 0;
  size_t own_bytes_ = 0;    // room of the pieces' own bytes
  size_t shared_cost_ = 0;  // of the shared values
  uint64_t sent_in_all_ = 0;
};

// The bytes of one answer.
std::string Encode(const ::lockstep::tcpstore::Answer& answer);

}  // namespace lockstep::wire::tcpstore
