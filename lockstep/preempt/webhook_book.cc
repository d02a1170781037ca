#include "lockstep/preempt/webhook_book.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/json_fields.h"
#include "lockstep/preempt/payload.h"

namespace lockstep::preempt {
namespace {

constexpr size_t kNoticesMax = 64;
constexpr absl::string_view kPath = "/notices";

const char* ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    default:
      return "Service Unavailable";
  }
}

bool IsLoopback(absl::string_view authority) {
  const absl::string_view host = absl::StartsWith(authority, "[")
                                     ? authority.substr(0, authority.find(']') + 1)
                                     : authority.substr(0, authority.find(':'));
  return host == "[::1]" || host == "localhost" ||
         (absl::StartsWith(host, "127.") &&
          host.find_first_not_of("0123456789.") == absl::string_view::npos);
}

// Takes the same time for every text of the token's length.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char differing = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differing = static_cast<unsigned char>(differing | (a[i] ^ b[i]));
  }
  return differing == 0;
}

std::string Respond(int status, absl::string_view content_type, const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status, " ", ReasonOf(status),
                      "\r\nContent-Type: ", content_type, "\r\nContent-Length: ", body.size(),
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", body);
}

}  // namespace

std::string WebhookBook::Refusal(int status, absl::string_view text) {
  return Respond(status, "text/plain; charset=utf-8", absl::StrCat(text, "\n"));
}

std::string WebhookBook::Refuse(const HttpMessage& request) const {
  if (!request.header("origin").empty() || !request.header("x-forwarded-for").empty() ||
      !IsLoopback(request.header("host"))) {
    return Refusal(403, "only programs on this host may say so, not web pages and proxies");
  }
  if (!token_.empty() &&
      !SameSecret(request.header("authorization"), absl::StrCat("Bearer ", token_))) {
    return Refusal(401, "say the token: Authorization: Bearer TOKEN");
  }
  return {};
}

std::string WebhookBook::Answer(const Now& now, const HttpMessage& request) {
  if (std::string refusal = Refuse(request); !refusal.empty()) return refusal;
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path != kPath && !absl::StartsWith(path, absl::StrCat(kPath, "/"))) {
    return Refusal(404, "there is only /notices");
  }
  if (request.method == "POST" && path == kPath) return Post(now, request);
  if (request.method == "DELETE") return Delete(path);
  return Refusal(405, "POST /notices, DELETE /notices/ID or DELETE /notices");
}

std::string WebhookBook::Post(const Now& now, const HttpMessage& request) {
  absl::StatusOr<std::vector<Notice>> posted = ParsePayload(now, request.body);
  if (!posted.ok()) return Refusal(400, std::string(posted.status().message()));
  Json ids = Json::array();
  for (Notice& notice : *posted) {
    if (notice.lead) notice.death = now.steady + *notice.lead;
    if (notice.text.empty()) notice.text = "said over HTTP";
    ids.push_back(notice.id);
    const auto found =
        std::find_if(notices_.begin(), notices_.end(),
                     [&notice](const Notice& known) { return known.id == notice.id; });
    if (found != notices_.end()) {
      *found = std::move(notice);
    } else if (notices_.size() < kNoticesMax) {
      notices_.push_back(std::move(notice));
    } else {
      return Refusal(503, absl::StrCat("there are ", kNoticesMax, " notices already"));
    }
  }
  LOCKSTEP_DCHECK(notices_.size() <= kNoticesMax);
  return Respond(200, "application/json", Json{{"ids", ids}}.dump(-1, ' ', true) + "\n");
}

std::string WebhookBook::Delete(const std::string& path) {
  if (path == kPath) {
    notices_.clear();
    return Respond(200, "application/json", "{}\n");
  }
  LOCKSTEP_DCHECK(path.size() > kPath.size());  // `Answer` has seen the slash
  const std::string id = path.substr(kPath.size() + 1);
  const size_t before = notices_.size();
  notices_.erase(std::remove_if(notices_.begin(), notices_.end(),
                                [&id](const Notice& notice) { return notice.id == id; }),
                 notices_.end());
  if (notices_.size() == before) return Refusal(404, "there is no notice of that id");
  return Respond(200, "application/json", "{}\n");
}

}  // namespace lockstep::preempt
