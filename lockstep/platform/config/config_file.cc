#include "lockstep/platform/config/config_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "yaml-cpp/yaml.h"

namespace lockstep::config {
namespace {

constexpr std::array<std::string_view, 4> kSections = {"server", "run", "client", "worker"};

absl::Status WrongAt(const std::string& path, const YAML::Mark& mark, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", mark.line + 1, ": ", what));
}

absl::StatusOr<ConfigValue> ValueOf(const std::string& path, const std::string& key,
                                    const YAML::Node& node) {
  ConfigValue value{.line = node.Mark().line + 1};
  if (node.IsScalar()) {
    value.texts.push_back(node.Scalar());
    return value;
  }
  if (!node.IsSequence()) {
    return WrongAt(path, node.Mark(), absl::StrCat("'", key, "' must be a value or a list"));
  }
  for (const YAML::Node& element : node) {
    if (!element.IsScalar()) {
      return WrongAt(path, element.Mark(),
                     absl::StrCat("'", key, "' must be a list of plain values"));
    }
    value.texts.push_back(element.Scalar());
  }
  return value;
}

absl::Status ReadSection(const std::string& name, const YAML::Node& node, ConfigFile& file) {
  if (std::find(kSections.begin(), kSections.end(), name) == kSections.end()) {
    return WrongAt(file.path, node.Mark(),
                   absl::StrCat("unknown section '", name,
                                "'; the sections are server, run, client and worker"));
  }
  auto& section = file.sections[name];
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) {
    return WrongAt(file.path, node.Mark(), absl::StrCat("'", name, "' must contain options"));
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) return WrongAt(file.path, node.Mark(), "a key must be plain text");
    const std::string key = entry.first.Scalar();
    absl::StatusOr<ConfigValue> value = ValueOf(file.path, key, entry.second);
    if (!value.ok()) return value.status();
    if (!section.emplace(key, *std::move(value)).second) {
      return WrongAt(file.path, entry.first.Mark(), absl::StrCat("'", key, "' is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSections(const YAML::Node& root, ConfigFile& file) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) {
    return WrongAt(file.path, root.Mark(), "has no sections; begin with `server:`");
  }
  for (const auto& entry : root) {
    if (!entry.first.IsScalar())
      return WrongAt(file.path, root.Mark(), "a section name must be plain text");
    absl::Status status = ReadSection(entry.first.Scalar(), entry.second, file);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConfigFile> ParseConfigFile(const std::string& path, const std::string& text) {
  ConfigFile file{.path = path};
  if (text.size() > kConfigFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has more than ", kConfigFileBytesMax,
                                                   " bytes (config_file_bytes_max)"));
  }
  try {
    if (absl::Status status = ReadSections(YAML::Load(text), file); !status.ok()) return status;
  } catch (const YAML::Exception& wrong) {
    return WrongAt(path, wrong.mark, wrong.msg);
  }
  return file;
}

absl::StatusOr<ConfigFile> ReadConfigFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::string text(kConfigFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.gcount() == 0 && errno != 0)) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the configuration file ", path, ": ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseConfigFile(path, text);
}

}  // namespace lockstep::config
