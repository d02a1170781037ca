// What people are told of one job's stores.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/time.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/stock/tcpstore/effects.h"

namespace lockstep::server {

// Threads: loop-confined. Bounds: ten lines of a kind about clients in ten seconds, since whoever
// reaches the port can cause them; the next one says how many were left out.
class StoreLog {
 public:
  struct Tellers {
    using Tell = std::function<void(std::string)>;
    Tell log;  // what an operator should know: an attempt begins
    // Somebody gave up waiting, and for whose key, when that is known.
    std::function<void(std::string, std::optional<int32_t> rank)> given_up;
    Tell foreign;  // what was wrong with a client that was sent away
  };

  // The job has `ranks`.
  StoreLog(Tellers tell, int32_t ranks);

  void Write(std::string text) const { tell_.log(std::move(text)); }
  // Not all of a flood: a later line says how many were left out.
  void Foreign(std::string text);
  // Not of a wait of less than a second: such a client looks whether a key is there.
  void GivenUp(Time now, const tcpstore::GivenUp& given_up);

 private:
  const Tellers tell_;
  const int32_t ranks_;
  observe::LogLimiter foreign_;
  observe::LogLimiter given_up_;
};

}  // namespace lockstep::server
