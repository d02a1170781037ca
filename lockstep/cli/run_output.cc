#include "lockstep/cli/run_output.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::cli {

RunOutput::RunOutput(runtime::Loop& loop, Resume output, Resume errors)
    : loop_(loop),
      output_(MakeSink(STDOUT_FILENO, "output", std::move(output))),
      errors_(MakeSink(STDERR_FILENO, "error", std::move(errors))) {}

launch::OutputSink RunOutput::MakeSink(int fd, const char* name, Resume resume) {
  return launch::OutputSink(
      fd, [this, resume = std::move(resume)] { loop_.Post(resume); },
      [this, name](int error) {
        loop_.Post([this, name, error] {
          Say(
              absl::StrFormat("cannot write standard %s: %s; further output is dropped, and the "
                              "processes continue",
                              name, std::strerror(error)));
        });
      });
}

void RunOutput::Say(const std::string& sentence) {
  errors_.Push(absl::StrCat("lockstep run: ", sentence, "\n"));
}

void RunOutput::Flush(std::function<void()> done) {
  output_.Flush([this, done = std::move(done)]() mutable { errors_.Flush(std::move(done)); });
}

}  // namespace lockstep::cli
