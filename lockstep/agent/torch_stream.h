// One connection of a client of torch's store to an agent: in which order its commands go on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::agent {

// Keeps the commands that have come and are not answered. A command is passed on when all those
// before it were answered, other than some that torch's protocol has no answer to; so the server
// needs to know only the newest of a connection that took effect (tcpstore::PassedConnections), and
// what is read again is not newer than what was done before. A long command is under way alone,
// since short messages of a link may overtake long ones. Behind a wait only its cancellation goes
// on, which the agent does itself: torch's clients wait for one thing at a time.
//
// Threads: thread-compatible. Bounds: the owner takes no more commands unless it `takes_more`: one
// question, whose answer is not there yet, or kQueuedMax commands without an answer.
class TorchStream {
 public:
  // What has not been passed on; a single command may be longer.
  static constexpr size_t kQueuedMax = 64;
  static constexpr size_t kQueuedBytesMax = size_t{256} << 10;
  // Commands without an answer that are under way.
  static constexpr size_t kUnderWayMax = 64;
  // A longer one is alone. A link sends no message of this length in parts.
  static constexpr size_t kTogetherBytesMax = size_t{32} << 10;

  enum class Kind {
    kTell,    // has no answer
    kAsk,     // has one
    kWait,    // has one when other clients have done something
    kCancel,  // takes a wait back
  };
  struct Command {
    uint64_t number = 0;
    uint64_t after = 0;  // the number of the one before it that is under way; 0: none is
    Kind kind = Kind::kTell;
    std::string bytes;
  };

  void Push(Kind kind, std::string bytes);
  // The oldest that may go on now, which is under way from here on; nothing: there is none. A
  // kCancel is done at once, and has the number of the wait that it ends; 0: there is none.
  std::optional<Command> TakeNext();
  // It was answered. False: it is not under way any more.
  bool Answered(uint64_t number);

  // One was refused: those behind it do not go on.
  void DropQueued();

  bool takes_more() const;
  // Nothing is queued or under way.
  bool idle() const { return queued_.empty() && under_way_.empty(); }
  // Whether any command was ever passed on.
  bool was_heard() const { return last_ > 0; }
  // The wait that is under way; 0: none is.
  uint64_t wait() const;

 private:
  struct UnderWay {
    uint64_t number = 0;
    Kind kind = Kind::kTell;
    bool alone = false;
  };
  bool MayGo(const Command& command) const;

  std::deque<Command> queued_;  // without numbers
  size_t queued_bytes_ = 0;
  std::vector<UnderWay> under_way_;  // the oldest first
  uint64_t last_ = 0;                // number that was given
};

}  // namespace lockstep::agent
