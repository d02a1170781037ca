// One source of the built-in ones, running. Tests only.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/preempt/registry.h"
#include "lockstep/preempt/source_set.h"
#include "lockstep/testing/source_log.h"

namespace lockstep::testing {

inline std::vector<std::unique_ptr<preempt::Source>> MakeOne(const std::string& spec,
                                                             const preempt::Host& host = {}) {
  auto sources = preempt::MakeSources({spec}, preempt::BuiltinSources(), host);
  EXPECT_TRUE(sources.ok()) << sources.status();
  return sources.ok() ? *std::move(sources) : std::vector<std::unique_ptr<preempt::Source>>{};
}

struct Running {
  explicit Running(const std::string& spec, const preempt::Host& host = {})
      : set(MakeOne(spec, host), log.listener()) {
    const absl::Status status = set.Start();
    EXPECT_TRUE(status.ok()) << status;
  }
  SourceLog log;
  preempt::SourceSet set;
};

// A directory of its own for each test.
class TestDirectory {
 public:
  TestDirectory() : path_(::testing::TempDir() + "sources.XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// At once, as those should do who write for others to read.
inline void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  EXPECT_EQ(::rename((path + ".new").c_str(), path.c_str()), 0);
}

}  // namespace lockstep::testing
