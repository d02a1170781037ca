#include "lockstep/stock/grpc/passed_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/grpc/families.h"
#include "lockstep/stock/wire/bounded_decode.h"

namespace lockstep::net {
namespace {

using wire::stock::Decoded;
using wire::stock::EncodedError;

EncodedError NoSuchMethod(std::string_view path) {
  return {.code = absl::StatusCode::kUnimplemented,
          .message = absl::StrCat("this server does not know the method ", std::string(path)),
          .details = "",
          .reason = ""};
}

Decoded Decode(const wire::stock::Family& family, size_t method, std::string_view bytes,
               wire::stock::CallContext context) {
  const std::string_view name = family.methods()[method];
  const size_t most = wire::stock::RequestBytesMax(name);
  if (bytes.size() > most) return wire::stock::TooBig(name, most);
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  return wire::stock::DecodeRequest(family, method, &array, bytes.size(), std::move(context));
}

}  // namespace

PassedCalls::PassedCalls(const std::vector<coord::RoleOptions>& roles, size_t connections_max)
    : families_(MakeFamilies(roles)), registered_(connections_max) {}

PassedCalls::Open PassedCalls::Find(std::string_view path) const {
  if (path.empty() || path.front() != '/') return {};
  const size_t slash = path.find('/', 1);
  if (slash == std::string_view::npos) return {};
  for (const auto& family : families_) {
    if (family->service() != path.substr(1, slash - 1)) continue;
    const auto methods = family->methods();
    for (size_t i = 0; i < methods.size(); ++i) {
      if (methods[i] == path.substr(slash + 1)) {
        return {.family = family.get(), .method = i, .asked = nullptr};
      }
    }
  }
  return {};
}

std::variant<coord::Event, EncodedError> PassedCalls::Begin(CallId id, const Call& call,
                                                            ServiceIncarnation current) {
  Open open = Find(call.method);
  if (open.family == nullptr) return NoSuchMethod(call.method);
  const wire::stock::Family& family = *open.family;
  Decoded decoded = Decode(family, open.method, call.bytes,
                           {.call = id, .deadline = call.deadline, .peer = call.peer});
  if (const auto* error = std::get_if<coord::ErrorPtr>(&decoded.event)) {
    return family.EncodeError(**error, decoded.asked.get());
  }
  auto event = std::get<coord::Event>(std::move(decoded.event));
  open.asked = std::move(decoded.asked);
  if (!family.requests_name_the_attempt()) {
    open.asked->peer = call.connection;
    family.SetAttempt(registered_.Find(call.connection, current), event, open.asked.get());
  }
  const bool is_new = open_.emplace(id, std::move(open)).second;
  LOCKSTEP_DCHECK(is_new);
  return event;
}

PassedCalls::Answer PassedCalls::End(const coord::Reply& reply) {
  auto node = open_.extract(reply.call);
  LOCKSTEP_CHECK(!node.empty());
  const Open& open = node.mapped();
  if (reply.error) return answers_.Error(*open.family, reply.error, open.asked.get());
  const auto* registered = std::get_if<coord::Registered>(&reply.answer);
  if (registered && open.asked) {
    registered_.Registered(open.asked->peer, registered->service);
  }
  return answers_.Answer(*open.family, open.method, reply.answer, open.asked.get());
}

}  // namespace lockstep::net
