#include "lockstep/platform/runtime/reached_at.h"

#include "lockstep/platform/runtime/address.h"

namespace lockstep::runtime {

std::string ReachedAt(const std::string& address, const std::string& via) {
  auto told = ParseAddress(address);
  if (!told.ok() || (told->host != "0.0.0.0" && told->host != "::")) return address;
  const auto server = ParseAddress(via);
  if (!server.ok()) return address;
  told->host = server->host;
  return ToString(*told);
}

}  // namespace lockstep::runtime
