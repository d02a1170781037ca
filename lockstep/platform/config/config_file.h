// A file of options: YAML, of which JSON is a part.
//
//   server:
//     listen: 0.0.0.0:7070
//     job: [digits=4, other=2]
//     keys_max: 100000
//   client:
//     coordinator: head:7070
//
// One section a program; a key is an option's name with underscores.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::config {

// Of a file: `config_file_bytes_max`.
inline constexpr size_t kConfigFileBytesMax = 1 << 20;

// A key's value as text; the option that it is of reads it.
struct ConfigValue {
  std::vector<std::string> texts;  // one, or those of a list
  int line = 0;                    // from 1
};

struct ConfigFile {
  std::string path;
  std::map<std::string, std::map<std::string, ConfigValue>> sections;
};

// INVALID_ARGUMENT names the place: "lockstep.yaml:3: ...". Sections are `server`, `run`, `client`
// and `worker`; which keys there are is for the programs to say.
absl::StatusOr<ConfigFile> ParseConfigFile(const std::string& path, const std::string& text);

// NOT_FOUND when it cannot be read.
absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path);

}  // namespace lockstep::config
