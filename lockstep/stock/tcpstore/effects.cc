#include "lockstep/stock/tcpstore/effects.h"

#include <type_traits>

namespace lockstep::tcpstore {
namespace {

size_t SizeOf(const ValuePtr& value) { return value ? value->size() : 0; }

}  // namespace

void PackName(absl::string_view name, std::string& packed) {
  const uint64_t size = name.size();
  packed.append(reinterpret_cast<const char*>(&size), sizeof(size));
  packed.append(name.data(), name.size());
}

// Numbers and the like cost nothing beside their answer.
size_t ValueBytesOf(const Answer& answer) {
  return std::visit(
      [](const auto& is) {
        using Is = std::decay_t<decltype(is)>;
        size_t bytes = 0;
        if constexpr (std::is_same_v<Is, Value> || std::is_same_v<Is, Popped>) {
          bytes = SizeOf(is.value);
        } else if constexpr (std::is_same_v<Is, SentValue>) {
          bytes = is.value.size();
        } else if constexpr (std::is_same_v<Is, Values>) {
          for (const ValuePtr& value : is.values) bytes += SizeOf(value);
        } else if constexpr (std::is_same_v<Is, KeyNames>) {
          for (const ValuePtr& slice : is.packed) bytes += slice->size();
        } else if constexpr (std::is_same_v<Is, Encoded>) {
          bytes = SizeOf(is.bytes);
        }
        return bytes;
      },
      answer);
}

}  // namespace lockstep::tcpstore
