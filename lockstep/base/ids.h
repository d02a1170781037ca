// Strong ids. Each noun of the glossary that is counted has a type of its own here, so that a call
// never takes one for another. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <utility>

namespace lockstep {

// An id of kind `Tag` held as `Rep`. No implicit conversions; ordered and hashable.
template <class Tag, class Rep>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }  // to print or send; ids are compared as such

  friend constexpr auto operator<=>(Id, Id) = default;
  template <class H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value_; }

 private:
  Rep value_ = {};
};

// Which of a job's members: 0 .. size-1. Stock clients call it task id, process id or rank.
using MemberIndex = Id<struct MemberIndexTag, int32_t>;

// One life of a member: the random number that the process chose for itself. For people it is
// printed as an ordinal instead (`task/4#2` is the second life of member 4).
using Incarnation = Id<struct IncarnationTag, uint64_t>;

// One life of a job as its clients see it: every attempt has one, and a request that carries
// another is refused.
using ServiceIncarnation = Id<struct ServiceIncarnationTag, uint64_t>;

// One request that waits for exactly one answer. Chosen by the shell, never reused by it.
using CallId = Id<struct CallIdTag, uint64_t>;

// A native client's conversation with a server, which outlives links: 128 random bits chosen by the
// client. All zero: none, as with stock clients.
struct SessionId {
  uint64_t high = 0;
  uint64_t low = 0;

  constexpr bool none() const { return high == 0 && low == 0; }  // as with stock clients
  friend constexpr auto operator<=>(SessionId, SessionId) = default;
  template <class H>
  friend H AbslHashValue(H h, SessionId id) {
    return H::combine(std::move(h), id.high, id.low);
  }
};

}  // namespace lockstep

template <class Tag, class Rep>
struct std::hash<lockstep::Id<Tag, Rep>> {
  size_t operator()(lockstep::Id<Tag, Rep> id) const { return std::hash<Rep>()(id.value()); }
};
