// The state of a store of torch's clients as it travels. Pure.
#pragma once

#include <cstdint>

#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/view.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

// Ranks that a job of `size` does not have are none. Bytes of keys that are not UTF-8 become
// U+FFFD.
StoreStatus FromStoreView(Time now, const lockstep::tcpstore::StoreView& view, int64_t attempt,
                          int32_t size);

}  // namespace lockstep::wire::native
