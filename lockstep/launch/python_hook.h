// What `lockstep run` has the Python processes that it starts import: a sitecustomize.py.
//
// It starts one thread that sleeps until it is asked where the process is, and reports an exception
// that nobody caught before the interpreter's exit handlers run. It sends no signal, and takes
// descriptors from 700 up, so that the program's own have the numbers that they would have anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/launch/environment.h"

namespace lockstep::launch {

// What is shown of an exception's text: `exception_text_bytes_max`.
inline constexpr size_t kExceptionTextBytesMax = 400;

// Of `folder`: through which the launcher learns of exceptions.
std::string ExceptionPipePath(const std::string& folder);
// Of process `pid`: through which it is asked, and the file with its answers.
std::string QuestionPipePath(const std::string& folder, int64_t pid);
std::string AnswerPath(const std::string& folder, int64_t pid);

// A real-time signal, on which the hook dumps stacks too: for `lockstep stacks --signal`.
int StackSignal();

// Writes the sitecustomize.py into `folder`, for processes that the process `launcher` starts;
// those that they start in turn are left alone. The environment's own sitecustomize is imported
// too.
absl::Status WritePythonHook(const std::string& folder, int64_t launcher);
// Has Python processes with this environment find it.
void AddPythonHook(const std::string& folder, RunEnvironment& environment);

// An exception that ends a process, as the hook tells it.
struct RaisedException {
  int64_t pid = 0;
  std::string text;  // "ValueError: bad sample, train.py:24 in step"; one line, bounded

  friend bool operator==(const RaisedException&, const RaisedException&) = default;
};
// Of one line of the pipe; absent: it is none. Pure.
std::optional<RaisedException> ParseException(std::string_view line);

}  // namespace lockstep::launch
