#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {

const OpenSsl& LinkedOpenSsl() {
#define LOCKSTEP_FILL(name) .name = &::name,
  static constexpr OpenSsl kLinked = {LOCKSTEP_LIBSSL_FUNCTIONS(LOCKSTEP_FILL)
                                          LOCKSTEP_LIBSSL_PSK_FUNCTIONS(LOCKSTEP_FILL)
                                              LOCKSTEP_LIBCRYPTO_FUNCTIONS(LOCKSTEP_FILL)};
#undef LOCKSTEP_FILL
  return kLinked;
}

}  // namespace lockstep::tls
