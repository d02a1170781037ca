#include "lockstep/preempt/registry.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/notice.h"

namespace lockstep::preempt {

void SourceRegistry::Add(const std::string& name, Factory factory) {
  LOCKSTEP_CHECK(factories_.emplace(name, std::move(factory)).second);
}

std::vector<std::string> SourceRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

absl::StatusOr<std::unique_ptr<Source>> SourceRegistry::Make(const std::string& name,
                                                             const SourceOptions& options,
                                                             const Host& host) const {
  const auto factory = factories_.find(name);
  if (factory == factories_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no source of notices '",
                                                   Presentable(name), "'; there are auto, ",
                                                   absl::StrJoin(Names(), ", ")));
  }
  OptionReader reader(name, options);
  absl::StatusOr<std::unique_ptr<Source>> source = factory->second(reader, host);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return source;
}

absl::StatusOr<std::vector<std::unique_ptr<Source>>> MakeSources(
    const std::vector<std::string>& specs, const SourceRegistry& registry, const Host& host) {
  std::vector<SourceSpec> wanted;
  std::set<std::string> named;
  bool detect = false;
  for (const std::string& text : specs) {
    absl::StatusOr<SourceSpec> spec = ParseSourceSpec(text);
    if (!spec.ok()) return spec.status();
    if (spec->name == "auto") {
      if (!spec->options.empty()) {
        return absl::InvalidArgumentError(
            "source 'auto' has no options; name the source to give it some");
      }
      detect = true;
      continue;
    }
    named.insert(spec->name);
    wanted.push_back(*std::move(spec));
  }
  if (detect) {
    for (const Detected& one : DetectSources(host)) {
      // Named with options of its own, it is not made once more without.
      if (registry.Has(one.name) && named.count(one.name) == 0) {
        wanted.push_back({.name = one.name});
      }
    }
  }
  std::vector<std::unique_ptr<Source>> sources;
  for (const SourceSpec& spec : wanted) {
    absl::StatusOr<std::unique_ptr<Source>> source = registry.Make(spec.name, spec.options, host);
    if (!source.ok()) return source.status();
    sources.push_back(*std::move(source));
  }
  return sources;
}

}  // namespace lockstep::preempt
