// Values between C++ and Python. Everything here needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/client/job.h"
#include "lockstep/client/keys.h"

namespace lockstep::python {

inline nanobind::bytes ToBytes(std::string_view bytes) {
  return nanobind::bytes(bytes.data(), bytes.size());
}

inline std::string FromBytes(const nanobind::bytes& bytes) {
  return std::string(bytes.c_str(), bytes.size());
}

// Text that came from elsewhere: what is not UTF-8 is shown escaped.
nanobind::object ToText(std::string_view text);

// (key, value, revision), as lockstep.KeyEntry takes it.
nanobind::object ToObject(const KeyEntry& entry);
// The same, or None.
nanobind::object ToObject(const std::optional<KeyEntry>& entry);
nanobind::object ToObject(const std::vector<KeyEntry>& entries);
// (changes, revision, snapshot), each change (key, value or None, revision).
nanobind::object ToObject(const KeyChanges& changes);
// (version, snapshot, attempt, state, members, errors), as lockstep.JobChange takes them.
nanobind::object ToObject(const JobChange& change);

}  // namespace lockstep::python
