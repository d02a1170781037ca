// Reads the corpus of the fuzzer again, in the normal build.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "fuzz/journal_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(JournalCorpus, IsReadWithoutHarm) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_CORPUS_DIR)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    ReadJournal(bytes.str());
    ++count;
  }
  EXPECT_GE(count, 10) << "in " << LOCKSTEP_CORPUS_DIR;
}

}  // namespace
}  // namespace lockstep::fuzz
