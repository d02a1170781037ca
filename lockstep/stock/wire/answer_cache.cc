#include "lockstep/stock/wire/answer_cache.h"

#include <utility>
#include <variant>

namespace lockstep::wire::stock {

AnswerCache::Key::Key(const Family& by, size_t call, const Asked* asked)
    : family(&by), method(call) {
  if (!asked) return;
  role = asked->role;
  first_generation = asked->first_generation;
}

EncodedAnswer AnswerCache::Answer(const Family& family, size_t method, const coord::Answer& answer,
                                  const Asked* asked) {
  Key key(family, method, asked);
  if (const auto* watched = std::get_if<coord::MembersWatched>(&answer)) {
    key.what = watched->members;
    key.version = watched->version;
  } else if (const auto* alive = std::get_if<coord::AliveMembers>(&answer)) {
    key.what = alive->members;
  } else if (const auto* passed = std::get_if<coord::BarrierPassed>(&answer)) {
    key.what = passed->values;
    key.version = passed->counter;
  }
  if (!key.what) return family.EncodeAnswer(method, answer, asked);
  if (key != answer_key_) {
    answer_ = std::make_shared<const std::string>(family.EncodeAnswer(method, answer, asked).head);
    answer_key_ = std::move(key);
  }
  return {std::string(), answer_};
}

const EncodedError& AnswerCache::Error(const Family& family, const coord::ErrorPtr& error,
                                       const Asked* asked) {
  Key key(family, 0, asked);
  key.what = error;
  if (key != error_key_) {
    error_ = family.EncodeError(*error, asked);
    error_key_ = std::move(key);
  }
  return error_;
}

}  // namespace lockstep::wire::stock
