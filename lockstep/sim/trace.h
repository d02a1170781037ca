// What happened in a simulation: all of it as one number, the end of it as text. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"

namespace lockstep::sim {

// Mixes what it is given into 64 bits; equal inputs in equal order give equal results everywhere.
class Hash {
 public:
  void Add(uint64_t value) {
    state_ = (state_ ^ value) * 0x9fb21c651e98df25;
    state_ ^= state_ >> 32;
  }
  void Add(absl::string_view bytes);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

// Keeps the last `kTraceLinesMax` entries, and the hash of every effect that there ever was.
class Trace {
 public:
  static constexpr size_t kTraceLinesMax = 50;

  // With `verbose` each entry goes to stdout as it is made, so that it is there when a broken
  // invariant of the machine ends the process.
  explicit Trace(bool verbose) : verbose_(verbose) {}

  void Event(int64_t step, Time now, const coord::Event& event);
  void Effects(const coord::Effects& effects);
  // What the world did: "kill task/3".
  void Note(Time now, std::string text);

  uint64_t hash() const { return hash_.value(); }
  // The last entries, a line each.
  std::string Tail() const;

 private:
  // As values: most are never printed.
  struct Entry {
    int64_t step = 0;
    Time now;
    coord::Event event;
    coord::Effects effects;
    std::string note;  // instead of an event
  };
  static std::string Text(const Entry& entry);
  static std::string EventText(const Entry& entry);
  static std::string EffectsText(const coord::Effects& effects);
  void Push(Entry entry);

  const bool verbose_;
  Hash hash_;
  std::deque<Entry> entries_;
};

}  // namespace lockstep::sim
