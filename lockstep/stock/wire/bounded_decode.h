// Requests of stock clients, read within the bounds of their method.
#pragma once

#include <cstddef>
#include <string_view>

#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::stock {

// What a message of that method may have, compressed or not: `message_bytes_max` of the call.
// Values come by one method only, and long lists by few.
size_t RequestBytesMax(std::string_view method);
// RESOURCE_EXHAUSTED (limit_exceeded): it has more than `most`.
Decoded TooBig(std::string_view method, size_t most);

// As Family::Decode, of a message that has `size` bytes, which are no more than RequestBytesMax.
Decoded DecodeRequest(const Family& family, size_t method,
                      google::protobuf::io::ZeroCopyInputStream* bytes, size_t size,
                      CallContext context);
// The same, of a message whose size is not known, and may be over the bound; not of values. It is
// looked at before it becomes objects: RESOURCE_EXHAUSTED (limit_exceeded) for more fields than a
// job has members.
Decoded DecodeWhole(const Family& family, size_t method,
                    google::protobuf::io::ZeroCopyInputStream* bytes, CallContext context);

}  // namespace lockstep::wire::stock
