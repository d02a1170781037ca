// The addresses of the servers of which one leads, as people write them: a list, or a file with
// one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::runtime {

// Addresses in one list: `servers_max`.
inline constexpr size_t kServersMax = 16;
// A list, or a file with one: `server_list_bytes_max`.
inline constexpr size_t kServerListBytesMax = size_t{64} << 10;

struct ServerList {
  std::vector<Address> addresses;  // at least one, in the order given, none twice
  std::string job;                 // the one that the join strings name; empty: none is named
};

// One address or join string, or several with commas between them. INVALID_ARGUMENT says what is
// wrong: an address, two jobs or two certificates that differ, or a bound. Pure.
absl::StatusOr<ServerList> ParseServerList(std::string_view text);

// Also takes `file:///PATH`, a file with an address or join string in each line. Empty lines and
// lines that begin with # are skipped. Errors name the file: INVALID_ARGUMENT, or the one for which
// it cannot be read (NOT_FOUND, FAILED_PRECONDITION). Blocks as reading the file does.
absl::StatusOr<ServerList> ReadServerList(const std::string& text);

// Whether `ReadServerList` reads a file.
bool IsServerFile(std::string_view text);

// "h:1", "h:1, i:2": for people.
std::string ToString(const ServerList& list);

// Whether a text names more than one server, or may.
bool AreServers(std::string_view text);
// "the server at h:1", "the servers at h:1, i:2", "the servers in file:///etc/servers": for people.
std::string TheServer(std::string_view text);
// The same of one of them: "the server at h:1", "one of the servers at h:1, i:2".
std::string OneServer(std::string_view text);

}  // namespace lockstep::runtime
