#include "lockstep/launch/jax_environment.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

namespace lockstep::launch {
namespace {

constexpr char kRecoverability[] = "JAX_ENABLE_RECOVERABILITY";

// As JAX reads a switch.
constexpr std::array<std::string_view, 6> kYes = {"y", "yes", "t", "true", "on", "1"};
constexpr std::array<std::string_view, 6> kNo = {"n", "no", "f", "false", "off", "0"};

}  // namespace

std::optional<bool> JaxRecoverability(const Environment& inherited, const Environment& extra) {
  auto found = extra.find(kRecoverability);
  if (found == extra.end()) {
    found = inherited.find(kRecoverability);
    if (found == inherited.end()) return std::nullopt;
  }
  const std::string value = absl::AsciiStrToLower(found->second);
  if (std::find(kYes.begin(), kYes.end(), value) != kYes.end()) return true;
  if (std::find(kNo.begin(), kNo.end(), value) != kNo.end()) return false;
  return std::nullopt;
}

}  // namespace lockstep::launch
