// How a message of ours lists its fields. Pure.
//
// A message is a plain struct with a name and one list. scripts/generate_messages.py makes it of
// the contract, proto/lockstep, in the build:
//
//   struct StatusRequest {
//     std::optional<std::string> job;
//     static constexpr std::string_view kName = "lockstep.v1.StatusRequest";
//     template <class Visit, class M = StatusRequest>
//     static constexpr void Fields(Visit&& visit) {
//       visit(Field(1, "job", &M::job, kIdBytes));
//     }
//   };
//
// Encoding, decoding (codec.h) and printing (json.h) read that list and nothing else. What a field
// may be: bool, int32_t, int64_t, uint32_t, uint64_t, std::string (UTF-8), Bytes, SharedBytes,
// BytesView, an enum with `EnumNames`, a message; std::optional of any of them (presence is told
// apart from the default), std::vector of any of them (repeated; numbers packed).
//
// A field states the longest text, the longest list and the range of numbers that the decoder takes
// (bounds.h; in the contract by the options of proto/lockstep/options.proto). In a message from
// outside every text, list and number must: `Decode` does not compile without. What our own server
// answers or wrote needs none: answers to requests, and what says `from_our_server`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::wire::native {

// Bytes of any kind, `bytes` in the .proto.
struct Bytes {
  std::string data;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

// The same, for what is long and already shared: put into a message without a copy, and copied once
// when that is encoded. Null is as empty.
struct SharedBytes {
  std::shared_ptr<const std::string> data;
  // Good for as long as the bytes are shared.
  std::string_view view() const { return data == nullptr ? std::string_view() : *data; }
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) {
    return a.data == b.data || a.view() == b.view();
  }
};

// The same, of somebody else: never copied but into what is encoded. What is decoded points into
// the bytes that it was decoded from, and is good for as long as they are.
struct BytesView {
  std::string_view view;
  friend bool operator==(const BytesView&, const BytesView&) = default;
};

template <class T>
inline constexpr bool kIsText = std::is_same_v<T, std::string> || std::is_same_v<T, Bytes> ||
                                std::is_same_v<T, SharedBytes> || std::is_same_v<T, BytesView>;

// Of bool and enums any value is taken: it is one of two, or has a name or none.
template <class T>
inline constexpr bool kIsNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// The most bytes of a text, or elements of a list, that the decoder takes, and the name of that
// limit in its error. Without a name there is no limit but the message's own.
struct Bound {
  std::string_view name;
  size_t max = std::numeric_limits<size_t>::max();
  // False: only the message's own size bounds it.
  constexpr bool stated() const { return !name.empty(); }
};

// The numbers that the decoder takes, both ends included, and their name in its error. A range is
// given whole or not at all: no number has one by default.
struct Range {
  std::string_view name;
  int64_t min;
  uint64_t max;
  // From `least` to `most`, both included.
  constexpr Range(std::string_view range_name, int64_t least, uint64_t most)
      : name(range_name), min(least), max(most) {}
  constexpr bool stated() const { return !name.empty(); }  // false: any number is taken

  template <class T>
  // Exact for every pair of types: a negative value never passes as a large one.
  constexpr bool Holds(T value) const {
    if constexpr (std::is_signed_v<T>) {
      if (value < 0) return int64_t{value} >= min;
    }
    return (min <= 0 || static_cast<uint64_t>(value) >= static_cast<uint64_t>(min)) &&
           static_cast<uint64_t>(value) <= max;
  }
};

inline constexpr Range kNoRange = {"", std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<uint64_t>::max()};

// One entry of a list: `number` and `name` as in the .proto, where the value is, and its bounds:
// `text` of each text in it, `range` of each number, `count` of the elements of a list.
template <class Message, class T>
struct Field {
  using Type = T;
  uint32_t number;
  std::string_view name;
  T Message::*member;
  Bound text;
  Bound count;
  Range range = kNoRange;

  // Of a text, or a list of texts.
  constexpr Field(uint32_t field_number, std::string_view field_name, T Message::*pointer,
                  Bound text_bound = {}, Bound count_bound = {})
      : number(field_number),
        name(field_name),
        member(pointer),
        text(text_bound),
        count(count_bound) {}

  // Of a number, or a list of numbers.
  constexpr Field(uint32_t field_number, std::string_view field_name, T Message::*pointer,
                  Range number_range, Bound count_bound = {})
      : number(field_number),
        name(field_name),
        member(pointer),
        count(count_bound),
        range(number_range) {}
};

// A value of an enum and its name on paper: lower case, as people read it. The name in the .proto
// is the same in upper case behind the enum's prefix.
template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

template <class T>
concept IsMessage = requires {
  { T::kName } -> std::convertible_to<std::string_view>;
};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// Calls `function(field)` for each field of the list, in its order.
template <class Message, class Function>
constexpr void ForEachField(Function&& function) {
  Message::Fields(function);
}

// Whether a message of this type, or one in it, points into bytes of others. So deep only, since a
// message may contain its like.
template <class T, int depth = 4>
constexpr bool HoldsViews() {
  if constexpr (depth == 0) {
    return false;
  } else if constexpr (IsOptional<T>::value || IsVector<T>::value) {
    return HoldsViews<typename T::value_type, depth>();
  } else if constexpr (IsMessage<T>) {
    bool holds = false;
    ForEachField<T>(
        [&]<class M, class F>(const Field<M, F>&) { holds = holds || HoldsViews<F, depth - 1>(); });
    return holds;
  } else {
    return std::is_same_v<T, BytesView>;
  }
}

template <class Message>
constexpr bool StatesItsBounds();

// Whether what a value of this type needs is stated. (No message of ours that comes from outside
// contains its like.)
template <class Value, class AField>
constexpr bool StatesTheBound(const AField& field) {
  if constexpr (IsMessage<Value>) {
    return StatesItsBounds<Value>();
  } else if constexpr (kIsText<Value>) {
    return field.text.stated();
  } else if constexpr (kIsNumber<Value>) {
    return field.range.stated();
  } else {
    return true;
  }
}

// Whether each text, each list and each number of this message, and of those in it, has its bound.
template <class Message>
constexpr bool StatesItsBounds() {
  bool stated = true;
  ForEachField<Message>([&]<class M, class F>(const Field<M, F>& field) {
    if constexpr (IsVector<F>::value) {
      stated = stated && field.count.stated() && StatesTheBound<typename F::value_type>(field);
    } else if constexpr (IsOptional<F>::value) {
      stated = stated && StatesTheBound<typename F::value_type>(field);
    } else {
      stated = stated && StatesTheBound<F>(field);
    }
  });
  return stated;
}

// Whether the message is only ever our own server's, which is trusted: an answer, or an entry of
// its journal.
template <class Message>
constexpr bool IsFromOurServer() {
  if constexpr (requires { Message::kFromOurServer; }) {
    return Message::kFromOurServer;
  } else {
    return false;
  }
}

// Whether `Decode` may take it.
template <class Message>
constexpr bool IsBounded() {
  if constexpr (IsFromOurServer<Message>()) {
    return true;
  } else {
    return StatesItsBounds<Message>();
  }
}

// Canonical encoding is in the order of numbers, and so must the list be.
template <class Message>
constexpr bool NumbersAscend() {
  uint32_t last = 0;
  bool ascend = true;
  ForEachField<Message>([&](const auto& field) {
    ascend = ascend && field.number > last;
    last = field.number;
  });
  return ascend;
}

// The name of an enum's value, or its number for one that we do not know.
template <class E>
std::string_view NameOf(E value) {
  for (const EnumName<E>& entry : EnumNames(E{})) {
    if (entry.value == value) return entry.name;
  }
  return "unknown";
}

}  // namespace lockstep::wire::native
