// Amazon EC2: the instance metadata service, version 2 with tokens, version 1 where no token can be
// had. Pure.
#pragma once

#include <array>
#include <string>

#include "lockstep/preempt/http_machine.h"

namespace lockstep::preempt {

struct AwsOptions {
  absl::Duration interval = absl::Seconds(2);        // between looks for an interruption
  absl::Duration slow_interval = absl::Seconds(10);  // at what gives minutes or days
  // That a token is asked for; it is renewed 15 s before its end.
  absl::Duration token_ttl = absl::Hours(1);
  bool version_1_allowed = true;
};

// One request at a time: a token when one is needed, then each of three pages that is due. 404 is
// "nothing"; 401 means that the token is no longer good, and is tried once more with a new one.
class AwsMachine final : public HttpMachine {
 public:
  explicit AwsMachine(AwsOptions options) : options_(options), backoff_(options.interval) {}

  // PUT of a token, or GET of the page that is due first.
  HttpRequest Ask(const Now& now) override;
  // `notices`: all that stand on the three pages, as last seen. `health`: the first page that
  // failed;
  // without version 1 also why there is no token. A page that failed keeps its notices.
  Sight Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) override;

 private:
  enum Page : size_t { kSpot, kRebalance, kScheduled, kPages };
  struct Look {
    Time due;
    absl::Status status;
    std::vector<Notice> notices;
  };
  Page Earliest() const;
  Sight TakeToken(const Now& now, const absl::StatusOr<HttpMessage>& answer);
  Sight TakePage(const Now& now, const absl::StatusOr<HttpMessage>& answer);
  absl::StatusOr<std::vector<Notice>> Read(const Now& now, const HttpMessage& answer) const;
  absl::StatusOr<std::vector<Notice>> ReadSpot(const Now& now, const std::string& body) const;
  absl::StatusOr<std::vector<Notice>> ReadScheduled(const Now& now, const std::string& body) const;
  Sight Summary(absl::Duration next) const;

  const AwsOptions options_;
  Backoff backoff_;
  HttpRequest asked_;
  bool asked_for_token_ = false;
  bool token_renewed_ = false;  // for the page that is asked for
  Page page_ = kSpot;
  std::array<Look, kPages> looks_;
  std::string token_;
  Time token_until_;
  Time version_1_until_;  // no token could be had: go without until then
  absl::Status token_status_;
};

}  // namespace lockstep::preempt
