#include "fuzz/auth_fuzzer.h"

#include <string>

#include "lockstep/base/check.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::fuzz {
namespace {

const auth::TokenKeys& Keys() {
  static const auth::TokenKeys keys = *auth::TokenKeys::Read(*auth::TokenKeys::NewKey());
  return keys;
}

void ReadToken(std::string_view bytes) {
  const auto token = auth::ParseToken(bytes);
  // Nobody else can sign.
  LOCKSTEP_CHECK(!Keys().Verify(bytes, absl::UnixEpoch()).ok());
  if (!token.ok()) {
    LOCKSTEP_CHECK(absl::IsUnauthenticated(token.status()));
    return;
  }
  // There is one way to write each token.
  const auto text = auth::TextToSign(token->claims);
  LOCKSTEP_CHECK(text.ok() && *text == token->signed_text);
  LOCKSTEP_CHECK(auth::TokenText(*text, token->signature) == bytes);
}

void ReadHello(std::string_view bytes) {
  const auto hello = wire::native::Decode<wire::native::Hello>(bytes);
  if (!hello.ok()) return;
  LOCKSTEP_CHECK(hello->token.size() <= wire::native::kTokenBytes.max);
  LOCKSTEP_CHECK(!Keys().Verify(hello->token, absl::UnixEpoch()).ok());
}

void ReadJoinString(std::string_view bytes) {
  const auto join = runtime::ParseJoinString(bytes);
  if (!join.ok()) {
    LOCKSTEP_CHECK(absl::IsInvalidArgument(join.status()));
    return;
  }
  // Nothing is lost by passing it on, a certificate least of all.
  const auto again = runtime::ParseJoinString(runtime::ToString(*join));
  LOCKSTEP_CHECK(again.ok() && again->address == join->address && again->job == join->job);
}

}  // namespace

void ReadGreeting(std::string_view bytes) {
  ReadToken(bytes);
  ReadHello(bytes);
  ReadJoinString(bytes);
}

}  // namespace lockstep::fuzz
