#include "lockstep/stock/tcpstore/store_room.h"

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
  if (FitsStore(bytes, held)) return std::nullopt;
  return absl::StrCat(what, " is over the limit torch_store_bytes_max (", store_bytes_max_,
                      "), of which ", held.total + buffer_bytes_,
                      " bytes are held: ", held.key_bytes, " in keys and values, ", held.wait_bytes,
                      " in waits, ", buffer_bytes_, " on their way to and from clients");
}

std::string StoreRoom::RefusalOfKeys(absl::string_view key, size_t keys, size_t bytes,
                                     const Held& held) const {
  LOCKSTEP_DCHECK(!HasRoomForKeys(keys, bytes, held));
  if (held.entries + keys > keys_max_) {
    return absl::StrCat("key ", Quoted(key), " is over the limit torch_keys_max (", keys_max_,
                        " keys and queued values)");
  }
  // There is one: otherwise `HasRoomForKeys` holds.
  return Refusal(absl::StrCat("key ", Quoted(key)), CostOf(keys, bytes), held).value();
}

}  // namespace lockstep::tcpstore
