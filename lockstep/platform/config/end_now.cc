#include "lockstep/platform/config/end_now.h"

#include <sstream>

#include "absl/strings/str_cat.h"

namespace lockstep::config {
namespace {

constexpr int kWrongOptions = 2;

}  // namespace

std::optional<EndNow> Parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    if (app.exit(error, out, err) == 0) return EndNow{.text = out.str()};
    return EndNow{.exit_code = kWrongOptions,
                  .text = absl::StrCat(app.get_name(), ": ", err.str())};
  }
  return std::nullopt;
}

EndNow WrongOptions(const CLI::App& app, const absl::Status& why) {
  return {.exit_code = kWrongOptions,
          .text = absl::StrCat(app.get_name(), ": ", std::string(why.message()), "\n")};
}

}  // namespace lockstep::config
