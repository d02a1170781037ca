// A dataset's plan as the dispatcher asks for it.
#pragma once

#include <string>

#include "lockstep/data/dispatch/shape.h"

namespace lockstep::server {

// `definition` and `manifest`: as wire/native/data_definition.h encodes them.
dispatch::ShapeOrError MakeDataShape(const std::string& definition, const std::string& manifest);

}  // namespace lockstep::server
