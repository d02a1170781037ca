// `lockstep token create` and `lockstep token inspect`.
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/cli/auth_files.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/config/values.h"
#include "lockstep/platform/runtime/secret_file.h"

namespace lockstep::cli {
namespace {

using wire::native::Role;

struct Wanted {
  std::string auth;
  std::string role;
  std::string job;
  std::string lasts = "24h";
  std::string to;
};

int Fail(Invocation& invocation, const char* name, const absl::Status& status) {
  invocation.err << "lockstep token " << name << ": " << std::string(status.message()) << "\n";
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::StatusOr<auth::TokenKeys> KeysOf(const std::string& directory) {
  const auto text = runtime::ReadSecretFile(AuthFiles(directory).token_key);
  if (!text.ok()) return text.status();
  return auth::TokenKeys::Read(*text);
}

int Create(Invocation& invocation, const Wanted& wanted) {
  const auto role = auth::ParseRole(wanted.role);
  if (!role.ok()) return Fail(invocation, "create", role.status());
  if (wanted.job.empty() && (*role == Role::kTask || *role == Role::kLaunch)) {
    return Fail(invocation, "create",
                absl::InvalidArgumentError(
                    absl::StrCat("--job is required: a ", wanted.role, " token is for one job")));
  }
  const auto lasts = config::ParseDuration(wanted.lasts);
  if (!lasts.ok() || *lasts <= absl::ZeroDuration()) {
    return Fail(invocation, "create",
                absl::InvalidArgumentError(
                    absl::StrCat("--for ", wanted.lasts, ": write a time such as 24h or 30m")));
  }
  const auto keys = KeysOf(wanted.auth);
  if (!keys.ok()) return Fail(invocation, "create", keys.status());
  const absl::Time until = absl::Now() + *lasts;
  const auto token = keys->Sign({.role = *role, .job = wanted.job, .until = until, .key = {}});
  if (!token.ok()) return Fail(invocation, "create", token.status());
  if (wanted.to.empty()) {
    invocation.out << *token << "\n";
    return kExitOk;
  }
  if (absl::Status written = runtime::ReplaceSecretFile(wanted.to, *token + "\n"); !written.ok()) {
    return Fail(invocation, "create", written);
  }
  invocation.err << "lockstep token create: " << wanted.to << " is valid until " << TimeText(until)
                 << "; set LOCKSTEP_TOKEN_FILE to its path\n";
  return kExitOk;
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  if (file != "-") return runtime::ReadSmallFile(file);
  // One sign more than a token has tells that it is none.
  std::string text(auth::kTokenBytesMax + 2, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));
  return text;
}

int Inspect(Invocation& invocation, const std::string& file, const std::string& directory) {
  auto text = ReadToken(file);
  if (!text.ok()) return Fail(invocation, "inspect", text.status());
  absl::StripAsciiWhitespace(&*text);
  const auto token = auth::ParseToken(*text);
  if (!token.ok()) return Fail(invocation, "inspect", token.status());
  const auth::Claims& claims = token->claims;
  const absl::Time now = absl::Now();
  invocation.out << "role   " << auth::RoleName(claims.role) << "\n"
                 << "job    " << (claims.job.empty() ? "(all)" : claims.job) << "\n"
                 << "until  " << TimeText(claims.until) << (now > claims.until ? " (expired)" : "")
                 << "\n"
                 << "key    " << claims.key << "\n";
  if (directory.empty()) return kExitOk;
  const auto keys = KeysOf(directory);
  if (!keys.ok()) return Fail(invocation, "inspect", keys.status());
  const auto verdict = keys->Verify(*text, now);
  if (!verdict.ok()) return Fail(invocation, "inspect", verdict.status());
  invocation.out << "signed with a key in " << directory << "\n";
  return kExitOk;
}

}  // namespace

void AddToken(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand("token", "Make tokens, and show what they say");
  command->require_subcommand(1);

  CLI::App* const create = command->add_subcommand(
      "create", "Make a token, which says what its holder may do at a server");
  auto wanted = std::make_shared<Wanted>();
  create->add_option("--auth", wanted->auth, "Directory that `lockstep auth init` made")
      ->type_name("DIR")
      ->required();
  create
      ->add_option("--role", wanted->role,
                   "observe: read status and events. task: be a process of a job. launch: start "
                   "the processes of a job. worker: serve data. operator: do everything.")
      ->type_name("ROLE")
      ->required();
  create
      ->add_option("--job", wanted->job,
                   "Limit the token to this job. Required for task and launch; default for other "
                   "roles: all jobs.")
      ->type_name("JOB");
  create->add_option("--for", wanted->lasts, "How long the token is valid")
      ->type_name("DURATION")
      ->capture_default_str();
  create
      ->add_option("--to", wanted->to,
                   "Write the token to this file, which only its owner can read. Default: standard "
                   "output.")
      ->type_name("FILE");
  create->callback([wanted, &invocation] { invocation.exit_code = Create(invocation, *wanted); });

  CLI::App* const inspect =
      command->add_subcommand("inspect", "Show what a token says; with --auth, check it");
  auto file = std::make_shared<std::string>();
  auto directory = std::make_shared<std::string>();
  inspect->add_option("file", *file, "File with a token; -: standard input")
      ->type_name("FILE")
      ->required();
  inspect->add_option("--auth", *directory, "Directory that `lockstep auth init` has made")
      ->type_name("DIR");
  inspect->callback([file, directory, &invocation] {
    invocation.exit_code = Inspect(invocation, *file, *directory);
  });
}

}  // namespace lockstep::cli
