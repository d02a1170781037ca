// What a source is told when it is made: NAME or NAME:KEY=VALUE,KEY=VALUE. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lockstep::preempt {

using SourceOptions = std::map<std::string, std::string>;

struct SourceSpec {
  std::string name;
  SourceOptions options;
};

// A comma or backslash within a value is written with a backslash before it. INVALID_ARGUMENT: no
// name, an option that is no KEY=VALUE, or one that is given twice.
absl::StatusOr<SourceSpec> ParseSourceSpec(absl::string_view text);

// Reads options by name and type; `Finish` says the first thing that was wrong, or which options
// nobody asked for.
class OptionReader {
 public:
  // `source`: the name that errors begin with.
  OptionReader(std::string source, SourceOptions options)
      : source_(std::move(source)), options_(std::move(options)) {}

  const std::string& source() const { return source_; }  // as errors call it

  // Any text, or `otherwise` when the option is not given.
  std::string Text(const std::string& key, std::string otherwise);
  // Of at least `least`.
  absl::Duration Length(const std::string& key, absl::Duration otherwise,
                        absl::Duration least = absl::ZeroDuration());
  // yes, true, on, 1 or no, false, off, 0; else `Finish` fails.
  bool Switch(const std::string& key, bool otherwise);
  // Something else is wrong with this option.
  void Refuse(const std::string& key, absl::string_view why);

  // INVALID_ARGUMENT: the first wrong value, or an option that nobody read, with those that there
  // are.
  absl::Status Finish() const;

 private:
  const std::string* Find(const std::string& key);

  const std::string source_;
  const SourceOptions options_;
  std::vector<std::string> known_;
  std::string wrong_;
};

}  // namespace lockstep::preempt
