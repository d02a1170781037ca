#include "lockstep/launch/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/launch/error_file.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {
namespace {

std::string PathOf(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::canonical(testing::TempDir());
  return folder / absl::StrCat("read_file_", ::getpid(), "_", name);
}

TEST(ReadFileTest, ReadsAllOrTheBeginning) {
  const std::string path = PathOf("whole");
  const std::string text(100'000, 'x');
  std::ofstream(path) << text;
  EXPECT_EQ(ReadFile(path), text);
  EXPECT_EQ(ReadFile(path, 20'000), text.substr(0, 20'000));
  EXPECT_EQ(ReadFile("/nowhere/at/all"), "");
  EXPECT_EQ(ReadFile("/"), "") << "a folder";
  ::unlink(path.c_str());
}

struct Descriptors {
  int open = 0;
  int inherited = 0;  // by a process that starts now
};

Descriptors Of(const std::string& path) {
  Descriptors found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) != path || error) continue;
    ++found.open;
    const int fd = std::stoi(entry.path().filename());
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) ++found.inherited;
  }
  return found;
}

TEST(ReadFileTest, Finding20_ProcessesThatStartMeanwhileInheritNothing) {
  const std::string path = PathOf("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string said;
  std::thread reader([&] { said = ReadErrorFile(path); });
  // Returns when the reader is at the pipe, which can be before the reader's descriptor is in the
  // table.
  runtime::UniqueFd writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  Descriptors found = Of(path);
  for (int look = 0; look < 10'000 && found.open < 2; ++look) {
    std::this_thread::yield();
    found = Of(path);
  }
  EXPECT_EQ(found.open, 2);
  EXPECT_EQ(found.inherited, 0);
  const std::string json = R"({"message": "late"})";
  EXPECT_EQ(::write(writer.get(), json.data(), json.size()), static_cast<ssize_t>(json.size()));
  writer.reset();
  reader.join();
  EXPECT_EQ(said, "late");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace lockstep::launch
