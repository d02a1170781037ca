// Answers to native clients: what the coordinator replied -> bytes. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::wire::native {

// The payload of an answer, or of an error.
struct EncodedReply {
  bool failed = false;
  std::string bytes;
  // When not null, it is the payload instead of `bytes`: the same for many.
  std::shared_ptr<const std::string> shared;
};

// Encodes replies of one job, in their order. What goes to many callers (an error, the values of a
// barrier, a change of the job, a big value) is encoded for the first of them and shared with those
// that follow; nothing is kept longer than somebody still sends it.
//
// Threads: thread-compatible.
class ReplyEncoder {
 public:
  // `kind` of the request. `now` for what is told as "ago".
  EncodedReply Encode(Time now, RequestKind kind, const coord::Reply& reply);

 private:
  // What was encoded last, and from what. The source is held weakly, which keeps its address from
  // coming back as something else.
  struct Kept {
    std::weak_ptr<const void> source;
    RequestKind kind = 0;
    int64_t number = 0;  // tells apart what else has the same source
    std::string text;    // likewise
    std::weak_ptr<const std::string> bytes;
  };

  template <class Source, class Function>
  EncodedReply Share(Kept& kept, const std::shared_ptr<Source>& source, RequestKind kind,
                     int64_t number, const std::string& text, const Function& encode);

  Kept error_;
  Kept answer_;
};

// Encodes a list of keys, or of changes of keys, a little at a time; what is encoded is freed.
//
// Threads: thread-compatible.
class EntriesEncoder {
 public:
  // `kind` of the request; KeysListed or KeysChanged, which the request is answered with.
  EntriesEncoder(RequestKind kind, coord::Answer answer);

  static constexpr size_t kEntriesPerStep = 128;
  static constexpr size_t kBytesPerStep = size_t{128} << 10;
  // Appends the next entries: kEntriesPerStep, or about kBytesPerStep. Returns whether there is
  // more.
  bool EncodeSome(std::string& out);

 private:
  RequestKind kind_;
  coord::Answer answer_;  // without entries
  std::vector<coord::KeyValue> entries_;
  size_t next_ = 0;
};

}  // namespace lockstep::wire::native
