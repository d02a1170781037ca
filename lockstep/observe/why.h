// What is the matter with a job, in sentences: rules over its status, no guess beyond them. Pure.
#pragma once

#include <string>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

enum class Verdict {
  kFine,     // nobody waits for anything that does not come
  kWaiting,  // somebody waits, which may be as it should
  kTrouble,  // something went wrong
};

struct Diagnosis {
  Verdict verdict = Verdict::kFine;
  std::string summary;                // one line
  std::vector<std::string> findings;  // the first thing that went wrong, or who is missing
  std::vector<std::string> followed;  // from it
  std::vector<std::string> advice;    // what to do
};

Diagnosis Diagnose(const wire::native::JobStatus& job);

// For people. Ends with a new line.
std::string WhyText(const wire::native::JobStatus& job);

// For programs: {"job", "verdict": "fine|waiting|trouble", "summary", "findings", "followed",
// "advice"}.
std::string WhyJson(const wire::native::JobStatus& job);

}  // namespace lockstep::observe
