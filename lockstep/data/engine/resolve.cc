#include "lockstep/data/engine/resolve.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/data/engine/file_roots.h"
#include "lockstep/data/engine/source_file.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/ops.h"

namespace lockstep::engine {
namespace {

using plan::CheckedNode;
using plan::Op;

// With the node before it.
absl::Status At(const CheckedNode& node, const absl::Status& status) {
  return plan::Error(status.code(), plan::ReasonOf(status),
                     absl::StrCat(plan::WhereOf(node.node()), ": ", node.node().op, ": ",
                                  std::string(status.message())));
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

absl::Status ResolveFile(const CheckedNode& node, const FileRoots& roots, const std::string& name,
                         plan::Manifest& manifest) {
  auto file = SourceFile::Open(roots, name, false);
  if (!file.ok()) return file.status();
  const auto records = Count(node, **file, manifest);
  if (!records.ok()) return records.status();
  manifest.files.push_back({.node = node.node().id,
                            .path = (*file)->path(),
                            .bytes = (*file)->bytes(),
                            .mtime_ns = (*file)->mtime_ns(),
                            .records = *records});
  // As it was all the while that it was counted.
  return (*file)->Check(manifest.files.back());
}

absl::Status ResolveNode(const CheckedNode& node, const FileRoots& roots,
                         const std::string& directory, plan::Manifest& manifest) {
  for (const std::string& path : node.As<std::vector<std::string>>("paths")) {
    const bool relative = path.empty() || path[0] != '/';
    const auto names =
        roots.List(relative && !directory.empty() ? absl::StrCat(directory, "/", path) : path,
                   kSourceFilesMax - manifest.files.size());
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      absl::Status status = ResolveFile(node, roots, name, manifest);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<plan::Manifest> Resolve(const plan::Definition& definition,
                                       const ResolveOptions& options) {
  if (const auto spec = Check(definition); !spec.ok()) return spec.status();
  const FileRoots roots(options.roots);
  plan::Manifest manifest;
  for (const plan::Node& node : definition.nodes) {
    const auto checked = CheckedNode::Make(node, &node == &definition.nodes.back());
    if (!checked.ok()) return checked.status();
    if (!checked->rule().reads_files) continue;
    if (absl::Status status = ResolveNode(*checked, roots, options.directory, manifest);
        !status.ok()) {
      return At(*checked, status);
    }
  }
  // What only the files could tell may not go with what is done with it.
  if (const auto spec = Check(definition, manifest); !spec.ok()) return spec.status();
  return manifest;
}

}  // namespace lockstep::engine
