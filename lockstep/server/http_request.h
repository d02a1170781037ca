// What a request to the HTTP listener says, and what it is answered with, as values. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::server {

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::string challenge = {};  // how to authenticate (WWW-Authenticate); empty: it says nothing
};

// As it goes over the wire: one answer a connection, never cached. `head`: without the body.
std::string Encode(const HttpAnswer& answer, bool head);

// {"reason": ..., "message": ...}
HttpAnswer HttpRefusal(int status, std::string_view reason, std::string_view message);

struct HttpTarget {
  std::string path;
  std::map<std::string, std::string> parameters;  // of two with one name the last

  // Empty when there is none.
  std::string parameter(const std::string& name) const;
};

// "/path?a=b&c=d" with percent signs decoded. INVALID_ARGUMENT: it is none.
absl::StatusOr<HttpTarget> ParseHttpTarget(std::string_view target);

// Of a header `Authorization: Bearer TOKEN`; empty: it has none.
std::string_view BearerToken(std::string_view authorization);

// Whether a page may be shown to a browser that says it calls this host. Numbers of addresses,
// "localhost" and the names given are; another name is somebody's who has a web page and points his
// name at this address, so that the page may read what we answer. No Host at all is no browser.
bool HostIsOurs(std::string_view host_header, const std::vector<std::string>& names);

}  // namespace lockstep::server
