// The mistakes that agents and their server might make, to see that the simulation finds each.
#pragma once

namespace lockstep::sim {

enum class StockMutation {
  kNone,
  // Of an agent:
  kIncrementsAreReads,  // the server may forget the answer to an increment before it has come
  kNumbersAnew,         // what is sent again gets another number
  kAcknowledgesEarly,   // an effect counts as answered as soon as it was sent
  kNewSessions,         // each link opens a session of its own
  kForgetsTheOthers,    // that the answer to one call answers others as well
  kFailsOnBreak,        // calls fail with their link
  kHeartbeatsWait,      // for the server, even while it is away
  kLeavesQuietly,       // what a caller cancels is not withdrawn
  // Of the server:
  kSpeaksTooEarly,      // before its records are durable
  kAnswersOneMore,      // with an answer for others
  kForgetsAnswers,      // in a restart
  kTakesRetriesForNew,  // and does again what was done
  kTakesOldArrivals     // at barriers, from processes of an attempt before, as of the current one
};

}  // namespace lockstep::sim
