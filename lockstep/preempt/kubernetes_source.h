// The source `kubernetes`, in a library of its own since it needs TLS.
#pragma once

#include "lockstep/preempt/registry.h"

namespace lockstep::preempt {

void AddKubernetes(SourceRegistry& registry);

}  // namespace lockstep::preempt
