// Turns what stands at each look into what has changed. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/preempt/notice.h"

namespace lockstep::preempt {

// De-duplication: each notice is told once, again when its time or text is another, and once more
// when it no longer stands.
//
// Threads: thread-compatible. Bounds: `kNoticesMax` notices stand at a time; more are left out.
class NoticeBook {
 public:
  static constexpr size_t kNoticesMax = 256;

  explicit NoticeBook(std::string source) : source_(std::move(source)) {}

  // `standing` is all that stands now. Withdrawals come first, the rest in the order of `standing`.
  std::vector<SourceEvent> Update(Time now, const std::vector<Notice>& standing);

  size_t size() const { return told_.size(); }  // notices that stand

 private:
  struct Told {
    Notice notice;
    std::optional<Time> death;
  };
  SourceEvent EventOf(const Told& told, Time now, bool withdrawn) const;

  const std::string source_;
  std::map<std::string, Told> told_;
};

}  // namespace lockstep::preempt
