// What a store is given: limits. Pure.
#pragma once

#include <cstddef>

namespace lockstep::tcpstore {

// The protocol has no error: whoever goes over a limit loses its connection, and the log names the
// limit. The first three are those of torch's own server.
struct StoreOptions {
  size_t key_bytes_max = size_t{8} << 10;
  size_t value_bytes_max = size_t{8} << 20;
  size_t keys_per_request_max = 131'072;
  // Of one request, which is read whole before it takes effect.
  size_t request_bytes_max = size_t{256} << 20;
  // Of one answer. Values of some length are shared with the store, not copied into it.
  size_t answer_bytes_max = size_t{64} << 20;
  // Keys and queued values.
  size_t keys_max = 1'000'000;
  // All that a store holds, as it costs: keys and values, waits, and what is on its way to and from
  // its clients.
  size_t store_bytes_max = size_t{4} << 30;
  // Parked waits of one connection; torch's client has one at a time.
  size_t waits_per_connection_max = 8;
  // Awaited keys that a view shows.
  size_t view_rows_max = 256;
  // Whether the store says in records what becomes of its keys.
  bool keeps = false;
};

}  // namespace lockstep::tcpstore
