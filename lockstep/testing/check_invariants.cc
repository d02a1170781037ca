// Linked into every test program: LOCKSTEP_DCHECK is on there, whatever the build.
#include "lockstep/base/check.h"

namespace lockstep {
namespace {

// Before `main`, hence before there are threads.
[[maybe_unused]] const bool kChecked = (CheckInvariants(), true);

}  // namespace
}  // namespace lockstep
