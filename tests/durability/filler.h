// Requests that are valid or nearly so, by the fields that their messages list. Tests only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"

namespace lockstep {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// From the environment.
inline int64_t Count(const char* variable, int64_t otherwise) {
  const char* const text = std::getenv(variable);
  int64_t number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

// Fills messages: mostly with what makes sense under a field's name, so that requests meet each
// other, and now and then with what lies at the edge of its type.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed) {
    definition_ = EncodeDefinition(
        plan::Definition{.nodes = {{.id = 1, .op = "range", .attrs = {{"stop", int64_t{1000}}}}}});
  }

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  template <class Message>
  Message Make() {
    Message message;
    Fill("", message);
    return message;
  }

  template <class Message>
  std::string Request() {
    const Message message = Make<Message>();
    std::string bytes = Encode(message);
    // A byte that is not what it was, or is not there.
    if (!bytes.empty() && Below(50) == 0) {
      char& byte = bytes[Below(bytes.size())];
      byte = static_cast<char>(byte ^ (1 << Below(8)));
    }
    if (!bytes.empty() && Below(100) == 0) bytes.resize(Below(bytes.size()));
    return bytes;
  }

 private:
  // Now and then, so that bounds of all sizes are met.
  static constexpr uint64_t kLongText = uint64_t{2} << 20;
  static constexpr uint64_t kLongList = 3000;

  template <class T>
  void Fill(std::string_view name, T& value) {
    if constexpr (IsOptional<T>::value) {
      value.reset();
      if (Below(2) == 0) Fill(name, value.emplace());
    } else if constexpr (IsVector<T>::value) {
      value.resize(Below(1000) == 0 ? Below(kLongList) : Below(20) == 0 ? 50 : Below(3));
      for (auto& element : value) Fill(name, element);
    } else if constexpr (IsMessage<T>) {
      ForEachField<T>([&](const auto& field) { Fill(field.name, value.*field.member); });
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = Text(name);
    } else if constexpr (std::is_same_v<T, Bytes>) {
      value.data = Text(name);
    } else if constexpr (std::is_same_v<T, SharedBytes>) {
      value.data = std::make_shared<const std::string>(Text(name));
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(static_cast<int32_t>(Below(20) == 0 ? Below(200) : Below(5)));
    } else if constexpr (std::is_same_v<T, bool>) {
      value = Below(2) == 1;
    } else if constexpr (!std::is_same_v<T, BytesView>) {
      value = Number<T>(name);
    }
  }

  std::string Text(std::string_view name) {
    // Values make a server full.
    if (Below(name == "value" ? 100 : 4000) == 0) {
      return std::string(Below(kLongText), static_cast<char>(Below(128)));
    }
    if (Below(100) == 0) return std::string(Below(3000), static_cast<char>(Below(128)));
    if (name == "job") return std::string(1, static_cast<char>('a' + Below(5)));
    if (name == "session") return Session();
    if (name == "definition") return definition_;
    if (name == "role" || name == "token") return Below(4) == 0 ? "worker" : "";
    if (name == "address") return "127.0.0.1:1234";
    if (Below(30) == 0) return "";
    return absl::StrCat(Below(10) == 0 ? "d/" : "", "n", Below(12));
  }

  std::string Session() {
    std::string session(16, '\0');
    session[15] = static_cast<char>(1 + Below(12));
    return session;
  }

  template <class T>
  T Number(std::string_view name) {
    if (Below(60) == 0) {
      const T kEdges[] = {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(),
                          static_cast<T>(-1), static_cast<T>(random_())};
      return kEdges[Below(std::size(kEdges))];
    }
    // Jobs of many members cost memory, which is not what is looked for here.
    if (name == "size" || name == "create_size") return static_cast<T>(Below(6));
    const bool is_time = name.ends_with("_us");
    if (is_time) return static_cast<T>(Below(4) == 0 ? 0 : 1 + Below(200'000));
    return static_cast<T>(Below(6));
  }

  std::mt19937_64 random_;
  std::string definition_;
};

}  // namespace lockstep
