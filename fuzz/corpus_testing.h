// Reads the corpus of a fuzzer again, in the normal build.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace lockstep::fuzz {

inline void ReadCorpus(const std::string& directory, void (*read)(std::string_view bytes)) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    SCOPED_TRACE(entry.path());
    read(bytes.str());
    ++count;
  }
  EXPECT_GE(count, 10) << "in " << directory;
}

}  // namespace lockstep::fuzz
