// What is the matter with a job, in sentences: rules over its status, and over where its processes
// are when somebody told; no guess beyond them. Pure.
#pragma once

#include <string>
#include <vector>

#include "lockstep/observe/suspects.h"
#include "lockstep/observe/why_data.h"
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
  std::vector<Suspect> suspects;      // because of whom, as far as something tells
  bool nobody_suspected = false;      // all is not well, and nothing tells because of whom
  std::vector<std::string> places;    // where the processes are, now and when something timed out
};

// `snapshots`: where its processes are in their code, the newest first. `data`: which members wait
// for the data service.
Diagnosis Diagnose(const wire::native::JobStatus& job,
                   const std::vector<StackSnapshot>& snapshots = {},
                   const std::vector<DataWait>& data = {});

// For people. Ends with a new line.
std::string WhyText(const wire::native::JobStatus& job,
                    const std::vector<StackSnapshot>& snapshots = {},
                    const std::vector<DataWait>& data = {});

// For programs: {"job", "verdict": "fine|waiting|trouble", "summary", "findings", "followed",
// "advice", "places", "suspects": [{"member", "name", "host", "pid", "since_ago_us", "evidence",
// "stack_place"}]}.
std::string WhyJson(const wire::native::JobStatus& job,
                    const std::vector<StackSnapshot>& snapshots = {},
                    const std::vector<DataWait>& data = {});

}  // namespace lockstep::observe
