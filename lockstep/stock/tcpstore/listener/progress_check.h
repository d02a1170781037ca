// Whether a connection makes progress, by looks at regular intervals. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::net {

// Remembers what the last look saw. A connection that merely rests makes progress; one that leaves
// a request half sent, or its answers unread, does not.
//
// Threads: thread-compatible.
class ProgressCheck {
 public:
  // The looks that find no progress before a connection is closed: the first finds what had begun
  // before it; the other two span the whole time-out.
  static constexpr int kLooks = 3;
  // What an unfinished request has to grow by between two looks.
  static constexpr size_t kRequestBytesMin = size_t{64} << 10;

  struct Sight {
    uint64_t commands = 0;  // that were taken so far
    size_t pending = 0;     // bytes of a request that is not whole
    bool reads = false;     // more bytes are taken as they come; what we hold up does not count
    size_t unsent = 0;      // bytes of answers that wait to be read
    uint64_t sent = 0;      // bytes of answers that were read so far
  };

  // To be called at each look. Returns why the connection is to be closed; empty: it stays.
  std::string Look(const Sight& now);

 private:
  Sight last_;
  int still_ = 0;  // looks in a row without progress
};

}  // namespace lockstep::net
