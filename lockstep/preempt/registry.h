// Sources by name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/preempt/host.h"
#include "lockstep/preempt/source.h"
#include "lockstep/preempt/source_options.h"

namespace lockstep::preempt {

// A value, filled by who composes a program: a source of another library is added by a call.
class SourceRegistry {
 public:
  // Reads its options by `options`; that all of them were read is checked by who calls.
  using Factory =
      std::function<absl::StatusOr<std::unique_ptr<Source>>(OptionReader& options, const Host&)>;

  // The name must be a new one; `Replace` is for one that is there.
  void Add(const std::string& name, Factory factory);
  // Another source of that name, for a program that has a way of its own.
  void Replace(const std::string& name, Factory factory) { factories_[name] = std::move(factory); }
  // Whether `Make` knows it.
  bool Has(const std::string& name) const { return factories_.count(name) > 0; }
  // In alphabetical order.
  std::vector<std::string> Names() const;

  // INVALID_ARGUMENT: no such source (the error lists those that are), an option that it has not
  // got or that is wrong.
  absl::StatusOr<std::unique_ptr<Source>> Make(const std::string& name,
                                               const SourceOptions& options,
                                               const Host& host) const;

 private:
  std::map<std::string, Factory> factories_;
};

// signal, file, command, http, gce, aws, azure, slurm. Kubernetes needs TLS, and comes with
// AddKubernetes (kubernetes_source.h).
SourceRegistry BuiltinSources();

// Of NAME or NAME:KEY=VALUE,KEY=VALUE each. `auto` stands for what fits this host (DetectSources)
// and the registry has; it is no error when nothing does.
absl::StatusOr<std::vector<std::unique_ptr<Source>>> MakeSources(
    const std::vector<std::string>& specs, const SourceRegistry& registry, const Host& host);

}  // namespace lockstep::preempt
