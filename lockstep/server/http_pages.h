// The pages of the HTTP listener: what each asks the server for, and how the answer is written.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/server/http_request.h"
#include "lockstep/server/server_view.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// Of this job; of all when it is empty.
struct AskForView {
  std::string job;
  bool durable = true;
  std::function<HttpAnswer(const ServerView&)> page;
};
struct AskForEvents {
  wire::native::WatchEvents request;
};
// Whether the loop runs.
struct AskForLife {};
// Whether the server should be sent work now.
struct AskForReadiness {
  bool reasons = true;  // says why not
};

// What there is to ask, or the answer when there is nothing.
using HttpAsk = std::variant<HttpAnswer, AskForLife, AskForReadiness, AskForView, AskForEvents>;

HttpAsk FindPage(const HttpTarget& target);

// Who may see a page is who may make the requests that would show the same (link::CheckRights).
// PERMISSION_DENIED, `not_permitted`.
absl::Status CheckRights(const link::Rights& rights, const HttpAsk& ask);

// `not_ready`: why it should not; said with `reasons`.
HttpAnswer ReadyPage(const std::vector<std::string>& not_ready, bool reasons);
HttpAnswer EventsPage(const wire::native::WatchEventsReply& reply);
// Said to callers who sent a token without TLS.
inline constexpr char kTokenInClear[] =
    "the request carried a token without TLS, so that others could read it: revoke it (run "
    "`lockstep auth rotate` twice), and use https://";
// Of a status that an ask ended with: 401 and 403 with how to authenticate, 404, 400 or 503; with
// its reason.
HttpAnswer RefusalOf(const absl::Status& status);
// Text for people: a health page.
HttpAnswer TextPage(int status, std::string text);

}  // namespace lockstep::server
