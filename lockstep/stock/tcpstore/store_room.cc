#include "lockstep/stock/tcpstore/store_room.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::tcpstore {
namespace {

constexpr size_t kKeyBytesInText = 128;

}  // namespace

std::string Quoted(absl::string_view key) {
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kKeyBytesInText)),
                      key.size() > kKeyBytesInText ? "..." : "", "'");
}

std::optional<std::string> StoreRoom::Refusal(const std::string& what, size_t bytes,
                                              const Held& held) const {
  // The server's limit first: it says no for everybody, whatever this store holds.
  if (bytes > room_bytes_) {
    return absl::StrCat(what, " does not fit into the server's memory (memory_max)");
  }
  const size_t all = held.total + buffer_bytes_;
  // Written so that no sum overflows, however much is asked for.
  if (bytes <= store_bytes_max_ - std::min(all, store_bytes_max_)) return std::nullopt;
  return absl::StrCat(what, " is over the limit torch_store_bytes_max (", store_bytes_max_,
                      "), of which ", all, " bytes are held: ", held.key_bytes,
                      " in keys and values, ", held.wait_bytes, " in waits, ", buffer_bytes_,
                      " on their way to and from clients");
}

std::string StoreRoom::RefusalOfKeys(absl::string_view key, size_t keys, size_t bytes,
                                     const Held& held) const {
  LOCKSTEP_DCHECK(!HasRoomForKeys(keys, bytes, held));
  if (held.entries + keys > keys_max_) {
    return absl::StrCat("key ", Quoted(key), " is over the limit torch_keys_max (", keys_max_,
                        " keys and queued values)");
  }
  return *Refusal(absl::StrCat("key ", Quoted(key)), CostOf(keys, bytes), held);
}

}  // namespace lockstep::tcpstore
