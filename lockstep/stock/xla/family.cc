#include "lockstep/stock/xla/family.h"

#include <utility>

#include "lockstep/stock/xla/answers.h"
#include "lockstep/stock/xla/requests.h"

namespace lockstep::wire::xla {
namespace {

class XlaFamily final : public stock::Family {
 public:
  std::string_view service() const override { return "xla.coordination.CoordinationService"; }
  std::span<const std::string_view> methods() const override { return MethodNames(); }

  stock::Decoded Decode(size_t method, google::protobuf::io::ZeroCopyInputStream* bytes,
                        CallContext context) const override {
    return {DecodeRequest(static_cast<Method>(method), bytes, std::move(context)), nullptr};
  }

  bool requests_name_the_attempt() const override { return true; }

  stock::EncodedAnswer EncodeAnswer(size_t, const coord::Answer& answer,
                                    const stock::Asked*) const override {
    return xla::EncodeAnswer(answer);
  }
  stock::EncodedError EncodeError(const coord::Error& error, const stock::Asked*) const override {
    return xla::EncodeError(error);
  }
};

}  // namespace

std::unique_ptr<stock::Family> MakeFamily() { return std::make_unique<XlaFamily>(); }

}  // namespace lockstep::wire::xla
