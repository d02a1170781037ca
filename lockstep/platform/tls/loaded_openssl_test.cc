#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/secret_context.h"

// Parts of another OpenSSL, which this program exports, as some statically linked Pythons do.
// Without care the system's libraries would call them in place of their own.
extern "C" {
[[noreturn]] void OtherOpenSslWasCalled() {
  std::fputs("the system's OpenSSL called a function of another one\n", stderr);
  std::abort();
}
#define LOCKSTEP_OTHERS(name)                                                      \
  __attribute__((visibility("default"), used)) void Other_##name() __asm__(#name); \
  void Other_##name() { OtherOpenSslWasCalled(); }
LOCKSTEP_OTHERS(CRYPTO_malloc)
LOCKSTEP_OTHERS(CRYPTO_zalloc)
LOCKSTEP_OTHERS(CRYPTO_free)
LOCKSTEP_OTHERS(OPENSSL_init_crypto)
LOCKSTEP_OTHERS(EVP_MD_fetch)
LOCKSTEP_OTHERS(SSL_CTX_set_options)
#undef LOCKSTEP_OTHERS
}

namespace lockstep::tls {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanLoadApart = false;  // sanitizers forbid RTLD_DEEPBIND
#else
constexpr bool kCanLoadApart = true;
#endif

TEST(LoadedOpenSsl, IsTheSystemsAloneWhereTheProgramHasAnotherInItself) {
  if (!kCanLoadApart) GTEST_SKIP() << "sanitizers forbid RTLD_DEEPBIND";
  ASSERT_NE(::dlsym(RTLD_DEFAULT, "CRYPTO_malloc"), nullptr) << "the other one is not exported";
  const auto openssl = LoadedOpenSsl();
  ASSERT_TRUE(openssl.ok()) << openssl.status();
  const std::string secret(runtime::kSecretBytes, 's');
  const auto caller = SecretContext::Make(**openssl, TlsLayer::Side::kClient, secret);
  const auto accepter = SecretContext::Make(**openssl, TlsLayer::Side::kServer, secret);
  ASSERT_TRUE(caller.ok() && accepter.ok()) << caller.status() << accepter.status();
  const auto calls = (*caller)->Open();
  const auto accepts = (*accepter)->Open();
  for (int turn = 0; turn < 3; ++turn) {
    for (const bool from_caller : {true, false}) {
      std::string bytes;
      (from_caller ? calls : accepts)->TakeOutput(bytes);
      ASSERT_TRUE((from_caller ? accepts : calls)->Receive(bytes).ok());
    }
  }
  EXPECT_TRUE(calls->established() && accepts->established());
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "SSL_CTX_new"), nullptr) << "others would call it";
}

}  // namespace
}  // namespace lockstep::tls
