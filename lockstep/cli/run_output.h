// The standard output and error of `lockstep run`: what processes write, and its own sentences.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "lockstep/launch/output_sink.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// Two sinks, which never hold up the loop. When one of them begins to drop its output, a sentence
// says so.
//
// Bounds: those of OutputSink. Threads: loop-confined, but for what `Flush` calls. `loop` must
// outlive it.
class RunOutput {
 public:
  // Called on the loop when a stream takes lines again, after a write returned false.
  using Resume = std::function<void()>;

  RunOutput(runtime::Loop& loop, Resume output, Resume errors);

  // Whole lines. False: they are taken, but no more until `Resume`.
  bool Write(std::string lines) { return output_.Push(std::move(lines)); }
  bool WriteErrors(std::string lines) { return errors_.Push(std::move(lines)); }
  // "lockstep run: ...", on standard error.
  void Say(const std::string& sentence);
  // Calls `done` on some thread when all that was taken so far is written or dropped.
  void Flush(std::function<void()> done);

 private:
  launch::OutputSink MakeSink(int fd, const char* name, Resume resume);

  runtime::Loop& loop_;
  launch::OutputSink output_;
  launch::OutputSink errors_;
};

}  // namespace lockstep::cli
