#include "lockstep/platform/tls/errors.h"

#include "absl/strings/str_cat.h"

namespace lockstep::tls {
namespace {

// A line of ERR_error_string_n: "error:0A000086:SSL routines::certificate verify failed".
std::string ReasonOf(const OpenSsl& openssl, unsigned long error) {
  char line[256];
  openssl.ERR_error_string_n(error, line, sizeof(line));
  const std::string_view text = line;
  const size_t colon = text.rfind(':');
  return std::string(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

}  // namespace

std::string TakeErrors(const OpenSsl& openssl, std::string_view what) {
  std::string text(what);
  const char* separator = ": ";
  while (const unsigned long error = openssl.ERR_get_error()) {
    absl::StrAppend(&text, separator, ReasonOf(openssl, error));
    separator = "; ";
  }
  return text;
}

}  // namespace lockstep::tls
