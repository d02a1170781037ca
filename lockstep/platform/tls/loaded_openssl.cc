#include <dlfcn.h>

#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {
namespace {

struct Names {
  const char* ssl;
  const char* crypto;
};
constexpr std::array kNames = {Names{"libssl.so.3", "libcrypto.so.3"},
                               Names{"libssl.so.1.1", "libcrypto.so.1.1"}};

// Of a library; null: there is none. It is not let go: its functions are used until the process
// ends.
using Open = void* (*)(const char* name);

// One that the process has loaded already.
void* Loaded(const char* name) { return ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD); }

// The system's, in a program that may have parts of another OpenSSL in itself: it calls its own
// functions only, and offers them to nobody else.
void* LoadApart(const char* name) { return ::dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND); }

// Finds a function by name, and remembers the first that is not there.
class Finder {
 public:
  template <class Function>
  void Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  // The same for one that need not be there.
  template <class Function>
  void Look(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
  const char* missing() const { return missing_; }

 private:
  const char* missing_ = nullptr;
};

absl::StatusOr<OpenSsl> Fill(void* ssl, void* crypto) {
  OpenSsl table;
  Finder finder;
#define LOCKSTEP_FIND(name) finder.Find(ssl, #name, table.name);
  LOCKSTEP_LIBSSL_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
#define LOCKSTEP_FIND(name) finder.Look(ssl, #name, table.name);
  LOCKSTEP_LIBSSL_PSK_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
#define LOCKSTEP_FIND(name) finder.Find(crypto, #name, table.name);
  LOCKSTEP_LIBCRYPTO_FUNCTIONS(LOCKSTEP_FIND)
#undef LOCKSTEP_FIND
  if (finder.missing() == nullptr) return table;
  return absl::FailedPreconditionError(
      absl::StrCat("the OpenSSL that this process has loaded lacks ", finder.missing(),
                   ": use a Python with OpenSSL 1.1.1 or newer"));
}

}  // namespace

absl::StatusOr<const OpenSsl*> LoadedOpenSsl() {
  for (const Open open : {&Loaded, &LoadApart}) {
    for (const Names& names : kNames) {
      void* const ssl = open(names.ssl);
      if (ssl == nullptr) continue;
      void* const crypto = Loaded(names.crypto);
      if (crypto == nullptr) continue;
      static const absl::StatusOr<OpenSsl> table = Fill(ssl, crypto);
      if (!table.ok()) return table.status();
      return &*table;
    }
  }
  return absl::FailedPreconditionError(
      "TLS needs OpenSSL: this interpreter's ssl module has loaded no shared library of it, and "
      "the "
      "system has none (libssl.so.3 or libssl.so.1.1): install OpenSSL, or use a Python whose ssl "
      "module is linked dynamically");
}

}  // namespace lockstep::tls
