#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

using coord::Reason;

std::string Normal(absl::string_view key) {
  return absl::StrJoin(absl::StrSplit(key, '/', absl::SkipEmpty()), "/");
}

class KeyChecker : public Checker {
 public:
  absl::string_view name() const override { return "keys"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) map_.clear();
    const coord::Caller* caller = CallerOf(step.event);
    if (caller != nullptr && caller->service == step.after.service && !step.stopped) {
      if (std::string wrong = Apply(step, caller->call); !wrong.empty()) {
        return absl::StrCat(wrong, ": ", sim::Describe(step.event));
      }
    }
    for (const AnsweredCall& call : step.calls.answered()) {
      const auto* get = std::get_if<coord::GetKey>(&call.asked.event);
      if (get == nullptr || call.reply->error) continue;
      const coord::KeyValue& entry = std::get<coord::KeyRead>(call.reply->answer).entry;
      auto found = map_.find(Normal(get->key));
      if (found == map_.end() || *entry.value != found->second || entry.key != get->key) {
        return absl::StrCat("a wrong value was read: ", sim::Describe(*call.reply));
      }
    }
    if (step.stopped) return "";
    return CheckTotals(step);
  }

 private:
  // Does to the map what the request asks for, and compares the answer. None: it is parked.
  std::string Apply(const Step& step, CallId call) {
    reply_ = nullptr;
    for (const coord::Reply& reply : step.effects.replies) {
      if (reply.call == call) reply_ = &reply;
    }
    if (reply_ != nullptr && reply_->error && reply_->error->reason == Reason::kLimitExceeded) {
      return "";  // and nothing was changed, which the totals show
    }
    return std::visit([this](const auto& e) { return Do(e); }, step.event);
  }

  template <class E>
  std::string Do(const E&) {
    return "";
  }

  std::string Do(const coord::SetKey& e) {
    const std::string key = Normal(e.key);
    if (!e.overwrite && map_.contains(key)) return ExpectError(Reason::kKeyExists);
    map_[key] = e.value;
    return ExpectSuccess();
  }

  std::string Do(const coord::GetKey& e) {
    if (!map_.contains(Normal(e.key))) {
      return reply_ == nullptr ? "" : "answered, though the key has no value";
    }
    return ExpectSuccess();
  }

  std::string Do(const coord::TryGetKey& e) {
    auto found = map_.find(Normal(e.key));
    if (found == map_.end()) return ExpectError(Reason::kKeyNotFound);
    return ExpectValue(e.key, found->second);
  }

  std::string Do(const coord::IncrementKey& e) {
    const std::string key = Normal(e.key);
    int64_t number = 0;
    auto found = map_.find(key);
    if (found != map_.end() && !absl::SimpleAtoi(found->second, &number)) {
      return ExpectError(Reason::kKeyNotANumber);
    }
    if (__builtin_add_overflow(number, e.increment, &number)) {
      return ExpectError(Reason::kNumberOverflow);
    }
    map_[key] = absl::StrCat(number);
    return ExpectValue(e.key, map_[key]);
  }

  std::string Do(const coord::ListKeys& e) {
    if (std::string wrong = ExpectSuccess(); !wrong.empty()) return wrong;
    const auto& listed = std::get<coord::KeysListed>(reply_->answer).entries;
    const std::string prefix = Normal(e.directory) + "/";
    size_t matched = 0;
    for (auto it = map_.lower_bound(prefix); it != map_.end() && it->first.starts_with(prefix);
         ++it, ++matched) {
      if (matched >= listed.size() || listed[matched].key != it->first ||
          *listed[matched].value != it->second) {
        return "a wrong list";
      }
    }
    return matched == listed.size() ? "" : "too long a list";
  }

  std::string Do(const coord::DeleteKey& e) {
    const std::string key = Normal(e.key);
    map_.erase(key);
    const std::string prefix = key + "/";
    std::erase_if(map_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
    return ExpectSuccess();
  }

  std::string ExpectSuccess() const {
    if (reply_ == nullptr) return "not answered";
    return reply_->error ? absl::StrCat("refused: ", sim::Describe(*reply_)) : "";
  }

  std::string ExpectError(Reason reason) const {
    if (reply_ == nullptr) return "not answered";
    return reply_->error && reply_->error->reason == reason
               ? ""
               : absl::StrCat("not ", coord::ReasonName(reason), " but ", sim::Describe(*reply_));
  }

  std::string ExpectValue(const std::string& key, const std::string& value) const {
    if (std::string wrong = ExpectSuccess(); !wrong.empty()) return wrong;
    const coord::KeyValue& entry = std::get<coord::KeyRead>(reply_->answer).entry;
    return *entry.value == value && entry.key == key
               ? ""
               : absl::StrCat("not '", value, "' but ", sim::Describe(*reply_));
  }

  std::string CheckTotals(const Step& step) const {
    if (step.after.keys != map_.size()) {
      return absl::StrCat("the view counts ", step.after.keys, " keys instead of ", map_.size());
    }
    for (const coord::KeyWaitView& wait : step.after.key_waits) {
      if (map_.contains(wait.key)) return absl::StrCat("waited for, though set: ", wait.key);
    }
    return "";
  }

  std::map<std::string, std::string> map_;
  const coord::Reply* reply_ = nullptr;  // to the request of this step
};

}  // namespace

CheckerPtr NewKeyChecker(const CoordinatorOptions&) { return std::make_unique<KeyChecker>(); }

}  // namespace lockstep::sim
