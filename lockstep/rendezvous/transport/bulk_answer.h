// The answers of a member that lends values, as they come. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "lockstep/rendezvous/transport/bulk_connection.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"

namespace lockstep::transport {

// A header, then its body, and so on. Says where the next bytes go, so that a value's bytes go
// where they belong without a copy, and keeps what is short. Threads: thread-compatible. Bounds:
// one header, one place, and room for bytes that nobody wants.
class BulkAnswer {
 public:
  // The rest of the body that comes, and the next header. `to`: where the value's first byte goes;
  // null: its bytes are for nobody.
  BulkConnection::Room Room(std::byte* to) {
    BulkConnection::Room room;
    if (in_body()) room.pieces[room.count++] = BodyRoom(to);
    if (!in_body() || room.pieces[0].iov_len == body_left()) {
      room.pieces[room.count++] = {header_.data() + header_filled_,
                                   header_.size() - header_filled_};
    }
    return room;
  }

  // Whether bytes of a body are awaited; otherwise those of a header.
  bool in_body() const { return body_.has_value(); }
  // What the body is of; only within one.
  const BulkHeader& header() const { return *body_; }
  // So many bytes of it have not come; only within one.
  uint64_t body_left() const { return body_->bytes - body_come_; }
  // Of what came into `Room(to)`: how much of it is of the body.
  size_t TakeBody(size_t count, std::byte* to) {
    const size_t here = std::min(count, BodyRoom(to).iov_len);
    body_come_ += here;
    return here;
  }
  // The place that came as a body.
  uint64_t place() const { return DecodeBulkPlace(place_); }
  // A header is awaited next.
  void EndBody() { body_.reset(); }

  // So much of a header came. True: all of it.
  bool TakeHeader(size_t count) {
    header_filled_ += count;
    if (header_filled_ < header_.size()) return false;
    header_filled_ = 0;
    return true;
  }
  // INVALID_ARGUMENT: it is none.
  absl::StatusOr<BulkHeader> DecodeHeader() const { return DecodeBulkHeader(header_); }
  // Its body is awaited next.
  void BeginBody(const BulkHeader& header) {
    body_ = header;
    body_come_ = 0;
  }

  // Another connection begins with a header.
  void Reset() {
    header_filled_ = 0;
    body_.reset();
  }

 private:
  iovec BodyRoom(std::byte* to) {
    const uint64_t left = body_left();
    if (body_->code == BulkCode::kPlace) return {place_.data() + body_come_, left};
    if (body_->code == BulkCode::kBytes && to != nullptr) {
      return {to + body_->offset + body_come_, left};
    }
    return {scratch_.data(), std::min<size_t>(left, scratch_.size())};
  }

  BulkHeaderBytes header_;
  size_t header_filled_ = 0;
  std::optional<BulkHeader> body_;  // while it comes
  uint64_t body_come_ = 0;
  std::array<char, kBulkPlaceBytes> place_;
  std::array<char, size_t{64} << 10> scratch_;
};

}  // namespace lockstep::transport
