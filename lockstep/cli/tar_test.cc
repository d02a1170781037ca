#include "lockstep/cli/tar.h"

#include <sys/wait.h>

#include <cstdio>
#include <fstream>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  char bytes[4096];
  while (const size_t count = std::fread(bytes, 1, sizeof bytes, pipe)) output.append(bytes, count);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return output;
}

TEST(Tar, TheSystemsTarReadsWhatIsWritten) {
  std::string archive;
  AppendTarFile("folder/empty.txt", "", 1'700'000'000, archive);
  AppendTarFile("folder/block.txt", std::string(512, 'b'), 1'700'000'000, archive);
  AppendTarFile(std::string(200, 'n'), "cut", 1'700'000'000, archive);
  AppendTarFile("folder/last.txt", "hello\n", 1'700'000'000, archive);
  FinishTar(archive);
  EXPECT_EQ(archive.size() % 512, 0u);
  const std::string file = testing::TempDir() + "/tar_test.tar";
  std::ofstream(file, std::ios::binary) << archive;
  EXPECT_EQ(OutputOf("tar -tf " + file), "folder/empty.txt\nfolder/block.txt\n" +
                                             std::string(kTarNameBytesMax, 'n') +
                                             "\nfolder/last.txt\n");
  EXPECT_EQ(OutputOf("tar -xOf " + file + " folder/last.txt"), "hello\n");
  EXPECT_EQ(OutputOf("tar -xOf " + file + " folder/block.txt"), std::string(512, 'b'));
}

}  // namespace
}  // namespace lockstep::cli
