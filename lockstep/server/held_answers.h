// Answers to requests that are no job's: held until what they tell of is durable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "lockstep/platform/link/server.h"
#include "lockstep/server/commit_queue.h"

namespace lockstep::server {

// Stands between those who answer and the link. Threads: loop-confined. Ownership: the queue must
// outlive it.
class HeldAnswers : public link::Responder::Sink, public std::enable_shared_from_this<HeldAnswers> {
 public:
  explicit HeldAnswers(CommitQueue& commits) : commits_(commits) {}

  // The same duty; what is answered to it goes on when everything before it is durable.
  link::Responder Hold(link::Responder responder);

  void Answer(link::LinkId link, link::RequestKind kind, uint64_t id,
              link::Payload payload) override;

 private:
  CommitQueue& commits_;
  std::map<uint64_t, link::Responder> responders_;
  uint64_t next_ = 0;
};

}  // namespace lockstep::server
