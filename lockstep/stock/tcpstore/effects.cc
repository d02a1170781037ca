#include "lockstep/stock/tcpstore/effects.h"

#include <type_traits>

namespace lockstep::tcpstore {
namespace {

size_t SizeOf(const ValuePtr& value) { return value ? value->size() : 0; }

}  // namespace

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
          for (const std::string& key : is.keys) bytes += key.size();
        }
        return bytes;
      },
      answer);
}

}  // namespace lockstep::tcpstore
