// Which of a job's attempts has its store now, and what of that outlives a server. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::tcpstore {

// Each attempt has a store of its own, at a port of its own, so that no number is given to two
// stores and no process that outlived its attempt finds the next one's. Where stores keep, the
// store goes on after a restart of the server; else it is lost with it, and if anybody knew of it
// the next attempt begins.
//
// Life: Apply for each record of the journal, Start, Listens, then the others. What a call returns
// as records has to be written down. Threads: thread-compatible.
class Attempts {
 public:
  // `keeps`: the journal is told what becomes of the keys.
  explicit Attempts(bool keeps) : keeps_(keeps) {}

  // INVALID_ARGUMENT: it is of a store that did not begin.
  absl::Status Apply(const Record& record);

  // What a server that starts has to do.
  struct Begin {
    bool again = false;  // the store that was made again, at `port`; else an empty one,
    uint16_t port = 0;   // at any other port than this
  };
  // Once, after the last record of the journal.
  Begin Start();
  // The store of the current attempt is at this port.
  void Listens(uint16_t port) { port_ = port; }
  // Of one that keeps, what the next start has to know, if it does not yet. One that does not is of
  // no interest to it until somebody knows of the store.
  std::vector<Record> Keep();
  // From which it is made again, but for the keys.
  std::vector<Record> Snapshot() const;

  enum class Wish { kCurrent, kOver, kNext };
  // `attempt`: 0 is the current one.
  Wish Asked(int64_t attempt) const;
  // A fresh store has begun at this port.
  std::vector<Record> Next(int64_t attempt, uint16_t port);
  // Somebody was told of the store.
  std::vector<Record> Told();
  // Somebody has come.
  std::vector<Record> Visited() { return Told(); }

  int64_t current() const { return attempt_; }  // of the job; counted by who starts processes

 private:
  record::Opened Opening() const { return {.attempt = attempt_, .port = port_, .keeps = keeps_}; }

  const bool keeps_;
  int64_t attempt_ = 1;
  uint16_t port_ = 0;
  bool written_ = false;                    // the journal knows of this attempt's store
  bool used_ = false;                       // somebody was told of it, or has come
  std::optional<record::Opened> restored_;  // what the journal knew of the last, until `Start`
};

}  // namespace lockstep::tcpstore
