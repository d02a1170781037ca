// Google Compute Engine: one key of the metadata server, which answers when it changes. Pure.
#pragma once

#include <string>

#include "lockstep/preempt/http_machine.h"

namespace lockstep::preempt {

struct GceOptions {
  absl::Duration long_poll = absl::Seconds(60);    // the server answers after that at the latest
  absl::Duration retry = absl::Seconds(1);         // after an error, and between polls without etag
  absl::Duration absent_retry = absl::Minutes(1);  // of a key that this machine has not got
  absl::Duration preempt_lead = absl::Seconds(30);  // from the notice to the end of the machine
  // Of maintenance that ends the machine: 60 s, an hour with GPUs.
  absl::Duration maintenance_lead = absl::Seconds(60);
  // Live migration pauses the machine and does not end it.
  bool migration_is_notice = false;
};

// Watches one key with the server's own wait: a plain GET gives value and etag, then each request
// waits for another etag. The value going back withdraws the notice.
class GceMachine final : public HttpMachine {
 public:
  enum class Key { kPreempted, kMaintenanceEvent, kUpcomingMaintenance };
  // A machine for each key: the server waits for one of them in a request.
  GceMachine(Key key, GceOptions options) : key_(key), options_(options), backoff_(options.retry) {}

  // A plain GET first and after each error; then one that the server answers at a change, or after
  // `long_poll`.
  HttpRequest Ask(const Now& now) override;
  // 404 is "no notice". UNAVAILABLE: no answer, or another status. DATA_LOSS: not Google's server,
  // or a value that the key does not have.
  Sight Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) override;

 private:
  Sight Fail(absl::Status status);
  // What the value means; an error when it means nothing.
  absl::StatusOr<std::vector<Notice>> Read(const Now& now, const std::string& value) const;
  absl::StatusOr<std::vector<Notice>> ReadUpcoming(const Now& now, const std::string& value) const;

  const Key key_;
  const GceOptions options_;
  Backoff backoff_;
  HttpRequest asked_;
  Time asked_at_;
  std::string etag_;
};

}  // namespace lockstep::preempt
