#include "lockstep/stock/tensorflow/family.h"

#include <utility>

#include "lockstep/stock/tensorflow/answers.h"
#include "lockstep/stock/tensorflow/requests.h"
#include "lockstep/stock/tensorflow/roles.h"

namespace lockstep::wire::tensorflow {
namespace {

class TensorflowFamily final : public stock::Family {
 public:
  explicit TensorflowFamily(std::vector<coord::RoleOptions> roles) : roles_(std::move(roles)) {}

  std::string_view service() const override { return "tensorflow.CoordinationService"; }
  std::span<const std::string_view> methods() const override { return MethodNames(); }

  stock::Decoded Decode(size_t method, google::protobuf::io::ZeroCopyInputStream* bytes,
                        CallContext context) const override {
    return DecodeRequest(static_cast<Method>(method), roles_, bytes, std::move(context));
  }

  bool requests_name_the_attempt() const override { return false; }
  void SetAttempt(ServiceIncarnation service, coord::Event& event,
                  stock::Asked* asked) const override {
    tensorflow::SetAttempt(service, event, asked);
  }

  stock::EncodedAnswer EncodeAnswer(size_t method, const coord::Answer& answer,
                                    const stock::Asked* asked) const override {
    return tensorflow::EncodeAnswer(static_cast<Method>(method), roles_, answer, OrNone(asked));
  }
  stock::EncodedError EncodeError(const coord::Error& error,
                                  const stock::Asked* asked) const override {
    return tensorflow::EncodeError(roles_, error, OrNone(asked));
  }

 private:
  // A call is refused before it is decoded when there are too many.
  static const stock::Asked& OrNone(const stock::Asked* asked) {
    static const stock::Asked none;
    return asked ? *asked : none;
  }

  const Roles roles_;
};

}  // namespace

std::unique_ptr<stock::Family> MakeFamily(std::vector<coord::RoleOptions> roles) {
  return std::make_unique<TensorflowFamily>(std::move(roles));
}

}  // namespace lockstep::wire::tensorflow
