// What to do next, by the reason of an error (docs/errors.md). Pure.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::observe {

// A sentence; empty for a reason that says it all.
std::string AdviceFor(std::string_view reason, std::string_view job);

}  // namespace lockstep::observe
