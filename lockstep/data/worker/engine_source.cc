#include "lockstep/data/worker/engine_source.h"

#include <utility>

#include "lockstep/data/engine/segment_run.h"

namespace lockstep::data {
namespace {

class EngineStream final : public ElementStream {
 public:
  explicit EngineStream(std::unique_ptr<engine::SegmentRun> run) : run_(std::move(run)) {}

  absl::StatusOr<std::optional<std::string_view>> Next() override {
    auto next = run_->Next();
    if (!next.ok()) return next.status();
    element_ = *std::move(next);
    if (!element_) return std::nullopt;
    const std::span<const std::byte> frame = element_->frame();
    return std::string_view(reinterpret_cast<const char*>(frame.data()), frame.size());
  }

 private:
  const std::unique_ptr<engine::SegmentRun> run_;
  std::optional<engine::Element> element_;
};

class EngineSource final : public SegmentSource {
 public:
  explicit EngineSource(std::shared_ptr<const engine::Dataset> dataset)
      : dataset_(std::move(dataset)) {}

  absl::StatusOr<std::unique_ptr<ElementStream>> Start(
      int64_t segment, engine::Allocator frames, const std::atomic<bool>& stop) const override {
    auto run = engine::SegmentRun::Start(dataset_, segment, std::move(frames), &stop);
    if (!run.ok()) return run.status();
    return std::make_unique<EngineStream>(*std::move(run));
  }

 private:
  const std::shared_ptr<const engine::Dataset> dataset_;
};

}  // namespace

std::shared_ptr<const SegmentSource> MakeEngineSource(
    std::shared_ptr<const engine::Dataset> dataset) {
  return std::make_shared<EngineSource>(std::move(dataset));
}

}  // namespace lockstep::data
