#include "lockstep/data/engine/function_allowance.h"

#include <algorithm>
#include <array>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

// Modules, and all below them, whose functions run code or programs that their argument names. Not
// a sandbox, since any module may do that: it stops what is allowed by mistake.
constexpr std::array kNeverAllowed = {
    "__main__", "_posixsubprocess", "asyncio", "builtins",  "cffi",        "code",   "codeop",
    "commands", "ctypes",           "dill",    "importlib", "cloudpickle", "joblib", "marshal",
    "nt",       "operator",         "os",      "pickle",    "pickletools", "posix",  "pty",
    "runpy",    "shelve",           "shutil",  "site",      "subprocess",  "sys",    "timeit",
    "types",    "zipimport",
};

// Names of Python with dots between them.
bool IsDottedName(std::string_view text) {
  if (text.empty()) return false;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '.')) {
    if (part.empty() || absl::ascii_isdigit(static_cast<unsigned char>(part[0]))) return false;
    const bool plain = std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '_' || c >= 0x80;
    });
    if (!plain) return false;
  }
  return true;
}

bool NeverAllowed(std::string_view module) {
  const std::string_view top = module.substr(0, module.find('.'));
  return std::find(kNeverAllowed.begin(), kNeverAllowed.end(), top) != kNeverAllowed.end();
}

struct Reference {
  std::string_view module;
  std::string_view name;
};

Reference Split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

absl::Status Refused(std::string message) {
  return plan::Error(absl::StatusCode::kPermissionDenied, plan::kFunctionRefused,
                     std::move(message));
}

}  // namespace

absl::StatusOr<FunctionAllowance> FunctionAllowance::Parse(
    const std::vector<std::string>& allowed) {
  FunctionAllowance allowance;
  for (const std::string& text : allowed) {
    const auto [module, name] = Split(text);
    const bool by_name = text.find(':') != std::string::npos;
    if (text.size() > kFunctionReferenceBytesMax || !IsDottedName(module) ||
        (by_name && !IsDottedName(name))) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text.substr(0, kFunctionReferenceBytesMax),
                       "' is not MODULE or MODULE:NAME with Python's names"));
    }
    if (NeverAllowed(module)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "': functions of ", std::string(module),
                       " run whatever a dataset tells them to; allow a function of your own"));
    }
    if (by_name) {
      allowance.names_.emplace(module, name);
    } else {
      allowance.modules_.emplace(module);
    }
  }
  return allowance;
}

absl::StatusOr<FunctionGrant> FunctionAllowance::Find(std::string_view reference) const {
  const auto [module, name] = Split(reference);
  if (reference.size() > kFunctionReferenceBytesMax || !IsDottedName(module) ||
      !IsDottedName(name)) {
    return Refused("a dataset's Python function is not written as module:function");
  }
  if (names_.contains({std::string(module), std::string(name)})) return FunctionGrant::kByName;
  // A name with a dot reaches into what the module has; one with an underscore is not offered.
  const bool offered = name.find('.') == std::string_view::npos && name[0] != '_';
  if (offered && modules_.contains(module)) return FunctionGrant::kByModule;
  const std::string text(reference);
  return Refused(absl::StrCat("this worker does not run the Python function ", text,
                              ": its operator allows functions with --allow-function ", text,
                              offered ? " (or all of " + std::string(module) + ")" : ""));
}

}  // namespace lockstep::engine
