#include "lockstep/platform/runtime/server_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lockstep/platform/runtime/secret_file.h"

namespace lockstep::runtime {
namespace {

constexpr absl::string_view kFileScheme = "file://";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Status TooLong() {
  return absl::InvalidArgumentError(absl::StrFormat(
      "a list of servers has at most %d bytes (server_list_bytes_max)", kServerListBytesMax));
}

// Adds one more to the list.
absl::Status Add(std::string_view text, ServerList& list) {
  auto join = ParseJoinString(text);
  if (!join.ok()) return join.status();
  if (list.job.empty()) list.job = join->job;
  if (!join->job.empty() && join->job != list.job) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the join strings name two jobs, \"%s\" and \"%s\": servers of which one leads have the "
        "same jobs",
        list.job, join->job));
  }
  Address& address = join->address;
  const auto same =
      std::find_if(list.addresses.begin(), list.addresses.end(), [&](const Address& other) {
        return other.host == address.host && other.port == address.port;
      });
  if (same == list.addresses.end()) {
    list.addresses.push_back(std::move(address));
  } else if (same->fingerprint != address.fingerprint) {
    return absl::InvalidArgumentError(
        absl::StrCat("the list names ", ToString(address), " twice, with different certificates"));
  }
  if (list.addresses.size() > kServersMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the list names more than %d servers (servers_max)", kServersMax));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServerList> ParseLines(std::string_view text) {
  ServerList list;
  for (absl::string_view line : absl::StrSplit(View(text), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    absl::Status added = Add(std::string_view(line.data(), line.size()), list);
    if (!added.ok()) return added;
  }
  if (list.addresses.empty()) return absl::InvalidArgumentError("the file names no server");
  return list;
}

absl::StatusOr<ServerList> ReadFile(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", kFileScheme, path, "': write file:///PATH, with the whole path of the file"));
  }
  const auto text = ReadSmallFile(path);
  if (!text.ok()) return text.status();
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  if (text->size() > kServerListBytesMax) return named(TooLong());
  auto list = ParseLines(*text);
  if (!list.ok()) return named(list.status());
  return list;
}

}  // namespace

absl::StatusOr<ServerList> ParseServerList(std::string_view text) {
  if (text.size() > kServerListBytesMax) return TooLong();
  ServerList list;
  if (!absl::StrContains(View(text), ',')) {
    if (absl::Status added = Add(text, list); !added.ok()) return added;
    return list;
  }
  for (absl::string_view each : absl::StrSplit(View(text), ',')) {
    each = absl::StripAsciiWhitespace(each);
    if (each.empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "'%s': an address is missing beside a comma; write HOST:PORT,HOST:PORT", View(text)));
    }
    absl::Status added = Add(std::string_view(each.data(), each.size()), list);
    if (!added.ok()) return added;
  }
  return list;
}

absl::StatusOr<ServerList> ReadServerList(const std::string& text) {
  if (IsServerFile(text)) return ReadFile(text.substr(kFileScheme.size()));
  return ParseServerList(text);
}

bool IsServerFile(std::string_view text) { return absl::StartsWith(View(text), kFileScheme); }

std::string ToString(const ServerList& list) {
  return absl::StrJoin(list.addresses, ", ", [](std::string* out, const Address& address) {
    absl::StrAppend(out, ToString(address));
  });
}

bool AreServers(std::string_view text) {
  return IsServerFile(text) || absl::StrContains(View(text), ',');
}

std::string TheServer(std::string_view text) {
  return absl::StrCat(IsServerFile(text) ? "the servers in "
                      : AreServers(text) ? "the servers at "
                                         : "the server at ",
                      View(text));
}

std::string OneServer(std::string_view text) {
  return absl::StrCat(AreServers(text) ? "one of " : "", TheServer(text));
}

}  // namespace lockstep::runtime
