#include "lockstep/engine/resolve.h"

#include <glob.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/engine/source_file.h"
#include "lockstep/plan/error.h"
#include "lockstep/plan/ops.h"

namespace lockstep::engine {
namespace {

using plan::CheckedNode;
using plan::Op;

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// With the node before it.
absl::Status At(const CheckedNode& node, const absl::Status& status) {
  return plan::Error(status.code(), plan::ReasonOf(status),
                     absl::StrCat(plan::WhereOf(node.node()), ": ", node.node().op, ": ",
                                  std::string(status.message())));
}

// In the order of their names; directories are left out.
absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern) {
  glob_t found = {};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<std::string> paths;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    if (!IsDirectory(found.gl_pathv[i])) paths.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (!paths.empty()) return paths;
  return plan::Error(
      absl::StatusCode::kNotFound, plan::kSourceMissing,
      absl::StrCat("no file matches ", pattern, "; paths are those of the data workers' hosts"));
}

absl::StatusOr<int64_t> CountFixed(const CheckedNode& node, const SourceFile& file) {
  const uint64_t bytes = file.bytes();
  if (node.op() == Op::kRecords) {
    const auto size = static_cast<uint64_t>(node.Int("bytes"));
    if (bytes % size == 0) return static_cast<int64_t>(bytes / size);
    return plan::Invalid(absl::StrCat(file.path(), " has ", bytes, " bytes, which are not whole ",
                                      "records of ", size));
  }
  const auto item = BytesOf(*plan::ParseDType(node.Text("dtype")));
  const uint64_t length = static_cast<uint64_t>(node.Int("length")) * item;
  const uint64_t stride =
      node.Int("stride") == -1 ? length : static_cast<uint64_t>(node.Int("stride")) * item;
  return bytes < length ? 0 : static_cast<int64_t>((bytes - length) / stride + 1);
}

// Records of one file, and of .npy files what they are.
absl::StatusOr<int64_t> Count(const CheckedNode& node, SourceFile& file, plan::Manifest& manifest) {
  switch (node.op()) {
    case Op::kLines:
    case Op::kTfRecord: {
      const auto index =
          file.Index(node.op() == Op::kLines ? IndexKind::kLines : IndexKind::kTfRecord);
      if (!index.ok()) return index.status();
      return (*index)->records();
    }
    case Op::kNpy: {
      const auto head = ReadNpyHead(file);
      if (!head.ok()) return head.status();
      const plan::ElementSpec spec = {
          .leaves = {{.type = head->type, .dims = {head->shape.begin() + 1, head->shape.end()}}},
          .single = true};
      const auto [known, first] = manifest.specs.emplace(node.node().id, ToText(spec));
      if (!first && known->second != ToText(spec)) {
        return plan::Invalid(absl::StrCat(file.path(), " has rows of ", ToText(spec),
                                          ", and the files before it of ", known->second));
      }
      return head->shape[0];
    }
    default:
      return CountFixed(node, file);
  }
}

absl::Status ResolveNode(const CheckedNode& node, const ResolveOptions& options,
                         plan::Manifest& manifest) {
  for (const std::string& path : node.As<std::vector<std::string>>("paths")) {
    const bool relative = path.empty() || path[0] != '/';
    const auto paths = Expand(
        relative && !options.directory.empty() ? absl::StrCat(options.directory, "/", path) : path);
    if (!paths.ok()) return paths.status();
    for (const std::string& name : *paths) {
      const auto real = AllowedPath(name, options.roots);
      if (!real.ok()) return real.status();
      if (manifest.files.size() == kSourceFilesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the dataset has more than ", kSourceFilesMax, " files"));
      }
      auto file = SourceFile::Open(*real, false);
      if (!file.ok()) return file.status();
      const auto records = Count(node, **file, manifest);
      if (!records.ok()) return records.status();
      manifest.files.push_back({.node = node.node().id,
                                .path = *real,
                                .bytes = (*file)->bytes(),
                                .mtime_ns = (*file)->mtime_ns(),
                                .records = *records});
      // As it was all the while that it was counted.
      if (absl::Status status = (*file)->Check(manifest.files.back()); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<plan::Manifest> Resolve(const plan::Definition& definition,
                                       const ResolveOptions& options) {
  if (const auto spec = Check(definition); !spec.ok()) return spec.status();
  plan::Manifest manifest;
  for (const plan::Node& node : definition.nodes) {
    const auto checked = CheckedNode::Make(node, &node == &definition.nodes.back());
    if (!checked.ok()) return checked.status();
    if (!checked->rule().reads_files) continue;
    if (absl::Status status = ResolveNode(*checked, options, manifest); !status.ok()) {
      return At(*checked, status);
    }
  }
  // What only the files could tell may not go with what is done with it.
  if (const auto spec = Check(definition, manifest); !spec.ok()) return spec.status();
  return manifest;
}

}  // namespace lockstep::engine
