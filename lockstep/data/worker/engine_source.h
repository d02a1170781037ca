// The engine's datasets as the cache runs them.
#pragma once

#include <memory>

#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/worker/segment_source.h"

namespace lockstep::data {

std::shared_ptr<const SegmentSource> MakeEngineSource(
    std::shared_ptr<const engine::Dataset> dataset);

}  // namespace lockstep::data
