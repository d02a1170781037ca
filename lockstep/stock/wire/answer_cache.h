// Remembers the last long answer, since one change of members or one alive set answers every call
// that waits for it with the same list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/coord/effects.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::stock {

// As Family::EncodeAnswer and Family::EncodeError. Not thread-safe.
class AnswerCache {
 public:
  // Encodes short answers each time; a list that many wait for once, and shares its bytes.
  EncodedAnswer Answer(const Family& family, size_t method, const coord::Answer& answer,
                       const Asked* asked);
  // Good until the next call.
  const EncodedError& Error(const Family& family, const coord::ErrorPtr& error, const Asked* asked);

 private:
  // What the bytes depend on.
  struct Key {
    Key() = default;
    Key(const Family& family, size_t method, const Asked* asked);

    std::shared_ptr<const void> what;  // kept, so that its address cannot come back as another
    int64_t version = 0;
    const Family* family = nullptr;
    size_t method = 0;
    std::string role;
    bool first_generation = false;
    friend bool operator==(const Key&, const Key&) = default;
  };

  Key answer_key_;
  std::shared_ptr<const std::string> answer_;
  Key error_key_;
  EncodedError error_;
};

}  // namespace lockstep::wire::stock
