// `lockstep auth init|renew|rotate DIR`: the keys and certificates of a server.
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/cli/auth_files.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/certificates.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kAuthorityLasts = absl::Hours(24 * 3650);
constexpr absl::Duration kServerLasts = absl::Hours(24 * 365);
// Clocks of hosts differ.
constexpr absl::Duration kBefore = absl::Hours(24);

// Addresses of this host that others may call: numbers of interfaces that are up.
std::set<std::string> OwnAddresses() {
  std::set<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char number[NI_MAXHOST];
    if (::getnameinfo(at->ifa_addr, bytes, number, sizeof(number), nullptr, 0, NI_NUMERICHOST) ==
            0 &&
        std::strchr(number, '%') == nullptr) {  // not one of a link alone
      addresses.insert(number);
    }
  }
  ::freeifaddrs(first);
  return addresses;
}

// What the server may be called, and calls itself.
std::vector<std::string> NamesOf(const std::vector<std::string>& given) {
  std::set<std::string> names = OwnAddresses();
  names.insert({runtime::HostName(), "localhost", "127.0.0.1", "::1"});
  names.insert(given.begin(), given.end());
  return {names.begin(), names.end()};
}

absl::StatusOr<tls::Identity> NewServer(const tls::Identity& authority,
                                        const std::vector<std::string>& names) {
  const absl::Time now = absl::Now();
  return tls::MakeSigned({.name = "lockstep-server",
                          .holds_for = names,
                          .from = now - kBefore,
                          .until = now + kServerLasts},
                         tls::UsedBy::kServer, authority);
}

// One subcommand while it runs.
class Auth {
 public:
  Auth(Invocation& invocation, std::string name, const std::string& directory)
      : invocation_(invocation), name_(std::move(name)), directory_(directory), files_(directory) {}

  int Init(const std::vector<std::string>& given);
  int Renew(const std::vector<std::string>& given);
  int Rotate();

 private:
  int Fail(const absl::Status& status) {
    invocation_.err << "lockstep auth " << name_ << ": " << std::string(status.message()) << "\n";
    return kExitFailed;
  }
  void SayServer(const std::vector<std::string>& names) {
    invocation_.out << "  server.pem, server.key  certificate of the server, for a year, for "
                    << absl::StrJoin(names, ", ") << "\n";
  }

  Invocation& invocation_;
  const std::string name_;
  const std::string directory_;
  const AuthFiles files_;
};

int Auth::Init(const std::vector<std::string>& given) {
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return Fail(absl::FailedPreconditionError(
        absl::StrCat("cannot make ", directory_, ": ", std::strerror(errno))));
  }
  const absl::Time now = absl::Now();
  const auto authority =
      tls::MakeAuthority({.name = absl::StrCat("Lockstep of ", runtime::HostName()),
                          .holds_for = {},
                          .from = now - kBefore,
                          .until = now + kAuthorityLasts});
  if (!authority.ok()) return Fail(authority.status());
  const std::vector<std::string> names = NamesOf(given);
  const auto server = NewServer(*authority, names);
  if (!server.ok()) return Fail(server.status());
  const auto key = auth::TokenKeys::NewKey();
  if (!key.ok()) return Fail(key.status());
  // The authority's key first: where there is one already, nothing is touched.
  absl::Status written = runtime::WriteSecretFile(files_.authority_key, authority->key);
  if (written.ok()) {
    written = runtime::WritePublicFile(files_.authority, authority->certificates);
  }
  if (written.ok()) written = runtime::WriteSecretFile(files_.server_key, server->key);
  if (written.ok()) written = runtime::WritePublicFile(files_.server, server->certificates);
  if (written.ok()) written = runtime::WriteSecretFile(files_.token_key, *key);
  if (!written.ok()) return Fail(written);
  invocation_.out << "made in " << directory_ << ":\n"
                  << "  ca.pem, ca.key          an authority, for ten years; only `lockstep auth "
                     "renew` needs its key\n";
  SayServer(names);
  invocation_.out << "  token.key               signs tokens\n"
                  << "next:\n"
                  << "  lockstep serve --listen HOST:7070 --auth " << directory_ << "\n"
                  << "  lockstep token create --auth " << directory_
                  << " --role launch --job JOB --to launch.token\n";
  return kExitOk;
}

int Auth::Renew(const std::vector<std::string>& given) {
  const auto certificates = runtime::ReadSmallFile(files_.authority);
  if (!certificates.ok()) return Fail(certificates.status());
  const auto key = runtime::ReadSecretFile(files_.authority_key);
  if (!key.ok()) return Fail(key.status());
  const std::vector<std::string> names = NamesOf(given);
  const auto server = NewServer({.certificates = *certificates, .key = *key}, names);
  if (!server.ok()) return Fail(server.status());
  absl::Status written = runtime::ReplaceSecretFile(files_.server_key, server->key);
  if (written.ok()) written = runtime::ReplacePublicFile(files_.server, server->certificates);
  if (!written.ok()) return Fail(written);
  invocation_.out << "renewed in " << directory_ << ":\n";
  SayServer(names);
  invocation_.out << "a running server reads it within 10 seconds; join strings remain valid\n";
  return kExitOk;
}

int Auth::Rotate() {
  const auto former = runtime::ReadSecretFile(files_.token_key);
  if (!former.ok()) return Fail(former.status());
  // Of what is there, the first; the one before goes.
  const auto first = auth::TokenKeys::FirstOf(*former);
  if (!first.ok()) return Fail(first.status());
  const auto key = auth::TokenKeys::NewKey();
  if (!key.ok()) return Fail(key.status());
  absl::Status written = runtime::ReplaceSecretFile(files_.token_key, *key + *first);
  if (!written.ok()) return Fail(written);
  invocation_.out << files_.token_key
                  << ": new tokens are signed with a new key; tokens signed with the previous key "
                     "remain valid until the next `lockstep auth rotate`\n";
  return kExitOk;
}

}  // namespace

void AddAuth(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("auth", "Make the keys and certificates of a server");
  command->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help, auto body) {
    CLI::App* const one = command->add_subcommand(name, help);
    auto directory = std::make_shared<std::string>();
    auto names = std::make_shared<std::vector<std::string>>();
    one->add_option("directory", *directory, "Directory of the files")
        ->type_name("DIR")
        ->required();
    if (name != "rotate") {
      one->add_option("--name", *names,
                      "A host name, IP address or URI that the server's certificate holds for, "
                      "besides those of this host. Repeatable.")
          ->type_name("NAME");
    }
    one->callback([name, directory, names, body, &invocation] {
      Auth auth(invocation, name, *directory);
      invocation.exit_code = body(auth, *names);
    });
  };
  add("init", "Make an authority, a certificate for the server and a key for tokens",
      [](Auth& auth, const std::vector<std::string>& names) { return auth.Init(names); });
  add("renew", "Make a new certificate for the server, of the same authority",
      [](Auth& auth, const std::vector<std::string>& names) { return auth.Renew(names); });
  add("rotate", "Make a new key for tokens; tokens signed with the previous key remain valid",
      [](Auth& auth, const std::vector<std::string>&) { return auth.Rotate(); });
}

}  // namespace lockstep::cli
