// Azure: scheduled events of this machine, and saying that it is ready for them. Pure.
#pragma once

#include <deque>
#include <string>

#include "lockstep/preempt/http_machine.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::preempt {

struct AzureOptions {
  absl::Duration interval = absl::Seconds(1);  // between looks
  std::string machine;       // our name among `Resources`; empty: asked of the metadata service
  bool acknowledge = false;  // `Acknowledge` lets the event begin before its time
  bool freeze_is_notice = false;  // a freeze pauses the machine for seconds and ends nothing
};

// Asks for our own name first, since events of the whole scale set are shown to all; then for the
// document of events, which is read again only when its incarnation is another.
class AzureMachine final : public HttpMachine {
 public:
  explicit AzureMachine(AzureOptions options)
      : options_(std::move(options)), backoff_(options_.interval), machine_(options_.machine) {}

  // POST of an event that is acknowledged, before all else; GET of our name, until it is known;
  // else
  // GET of the events, for which the first answer may take two minutes.
  HttpRequest Ask(const Now& now) override;
  // UNAVAILABLE: no answer, or a status other than 200. DATA_LOSS: the answer is no document of
  // events.
  // `notices` stay as they were then.
  Sight Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) override;
  // True: the event stands and its start is to be sent. False also when that is queued already, or
  // the options do not allow it.
  bool Acknowledge(const std::string& id) override;

 private:
  enum class Asked { kName, kEvents, kStart };
  Sight Fail(absl::Status status);
  Sight TakeStart(const absl::StatusOr<HttpMessage>& answer);
  absl::StatusOr<std::vector<Notice>> Read(const Now& now, const Json& json) const;
  bool IsOurs(const Json& event) const;

  static constexpr int kStartTries = 3;

  const AzureOptions options_;
  Backoff backoff_;
  std::string machine_;
  Asked asked_for_ = Asked::kName;
  HttpRequest asked_;
  bool seen_ = false;  // the first answer may take two minutes: it switches the feature on
  int64_t incarnation_ = -1;
  std::vector<Notice> notices_;
  std::deque<std::string> starts_;  // to be acknowledged
  int start_failures_ = 0;
};

}  // namespace lockstep::preempt
