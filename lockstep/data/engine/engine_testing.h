// Files and datasets of tests.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/engine/local.h"
#include "lockstep/data/engine/resolve.h"
#include "lockstep/data/engine/segment_run.h"
#include "lockstep/data/engine/tfrecord.h"
#include "lockstep/data/plan/plan_testing.h"

namespace lockstep::engine {

// A directory that goes with the test.
class TestFiles {
 public:
  TestFiles() {
    std::string name = ::testing::TempDir() + "lockstep-engine-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = std::filesystem::canonical(name).string();
  }
  ~TestFiles() { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

 private:
  std::string directory_;
};

template <class T>
std::string BytesOfItems(const std::vector<T>& items) {
  return std::string(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T));
}

inline std::string TfRecord(const std::string& data) {
  std::string record(8, '\0');
  const uint64_t length = data.size();
  std::memcpy(record.data(), &length, sizeof(length));
  const auto checksum = [](const std::string& bytes) {
    const uint32_t crc = TfRecordChecksum(bytes);
    return std::string(reinterpret_cast<const char*>(&crc), sizeof(crc));
  };
  return record + checksum(record) + data + checksum(data);
}

inline absl::StatusOr<std::shared_ptr<const Dataset>> OpenDataset(const plan::Builder& builder,
                                                                  DatasetOptions options = {}) {
  plan::Manifest manifest;
  if (NeedsManifest(builder.definition())) {
    auto resolved = Resolve(builder.definition(), {.roots = options.roots});
    if (!resolved.ok()) return resolved.status();
    manifest = *std::move(resolved);
  }
  return Dataset::Open(builder.definition(), std::move(manifest), std::move(options));
}

// Values of one leaf of all elements, one after the other.
template <class T>
absl::StatusOr<std::vector<T>> All(const std::shared_ptr<const Dataset>& dataset, size_t leaf = 0) {
  LocalIteration iteration(dataset);
  std::vector<T> values;
  for (;;) {
    auto element = iteration.Next();
    if (!element.ok()) return element.status();
    if (!element->has_value()) return values;
    const auto view = (*element)->Parse();
    if (!view.ok()) return view.status();
    const LeafView& column = view->leaf(leaf);
    if constexpr (std::is_same_v<T, std::string>) {
      for (int64_t i = 0; i < column.items(); ++i) values.emplace_back(column.item(i));
    } else {
      const auto* items = reinterpret_cast<const T*>(column.bytes.data());
      values.insert(values.end(), items, items + column.bytes.size() / sizeof(T));
    }
  }
}

}  // namespace lockstep::engine
