// What requests to our webhook mean. Pure.
#pragma once

#include <string>
#include <vector>

#include "lockstep/preempt/http_message.h"
#include "lockstep/preempt/notice.h"

namespace lockstep::preempt {

// POST /notices        a payload (payload.h): adds notices, or replaces those of the same id
// DELETE /notices/ID   withdraws one
// DELETE /notices      withdraws all
//
// Refuses what a web page could send through a browser on this host (an Origin, a Host that is no
// loopback address), and with a token everybody who does not say it.
//
// Bounds: 64 notices.
class WebhookBook {
 public:
  explicit WebhookBook(std::string token) : token_(std::move(token)) {}

  // The whole answer, as it goes out.
  std::string Answer(const Now& now, const HttpMessage& request);
  // An answer of that status with the text, whole, for what never reaches `Answer`.
  static std::string Refusal(int status, absl::string_view text);

  // That stand, in the order in which they came.
  const std::vector<Notice>& notices() const { return notices_; }

 private:
  // Empty when it is let in.
  std::string Refuse(const HttpMessage& request) const;
  std::string Post(const Now& now, const HttpMessage& request);
  std::string Delete(const std::string& path);

  const std::string token_;
  std::vector<Notice> notices_;
};

}  // namespace lockstep::preempt
