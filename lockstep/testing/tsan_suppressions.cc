// What the thread sanitizer is not to report in any program of ours.

// Debian's abseil is compiled without the sanitizer, which does not see that statuses are counted
// atomically there, and takes the end of the last one for a race with whoever read it before. The
// library may leave the deletion to a jump, so that its own frame is not in the report.
extern "C" const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "race:libabsl_status.so\n"
         "race:absl::*Status::Unref\n";
}
