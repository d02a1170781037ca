// The names of types, as their source has them. Pure.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep {

// Without namespaces: "SetKey" of coord::SetKey. For plain classes that no other class encloses.
template <class T>
constexpr std::string_view TypeName() {
  // "... [with T = lockstep::coord::SetKey; ...]" of gcc, "... [T = lockstep::coord::SetKey]" of
  // clang.
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view kBefore = "T = ";
  name.remove_prefix(name.find(kBefore) + kBefore.size());
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

namespace internal {
template <class... T>
constexpr std::array<std::string_view, sizeof...(T)> TypeNamesOf(const std::variant<T...>*) {
  return {TypeName<T>()...};
}
}  // namespace internal

// Of the alternatives of a variant, by `index()`.
template <class Variant>
inline constexpr auto kTypeNames = internal::TypeNamesOf(static_cast<const Variant*>(nullptr));

// "set_key" of "SetKey".
inline std::string SnakeCase(std::string_view name) {
  std::string snake;
  for (const char c : name) {
    const bool capital = c >= 'A' && c <= 'Z';
    if (capital && !snake.empty()) snake += '_';
    snake += capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return snake;
}

}  // namespace lockstep
