// What the sentences of `lockstep why` are made of. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

std::vector<int32_t> IndicesOf(const std::vector<const wire::native::MemberStatus*>& members);

// Adds one sentence for each of three of them, then a count: who it is, when it was last heard,
// where it is, and what it does.
void TellEach(const wire::native::JobStatus& job, const std::vector<int32_t>& indices,
              std::vector<std::string>& out);

}  // namespace lockstep::observe
