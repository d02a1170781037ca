#include "lockstep/data/engine/file_roots.h"

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr size_t kMost = 100;

// A tree with a root in it, and something beside the root that is nobody's business.
class FileRootsTest : public ::testing::Test {
 protected:
  FileRootsTest() {
    fs::create_directories(At("root/a"));
    fs::create_directories(At("root/b-c"));
    fs::create_directories(At("outside"));
    for (const char* name :
         {"root/a/1.txt", "root/a/2.txt", "root/b-c/1.txt", "root/{x}.txt", "outside/secret.txt"}) {
      files_.Write(name, name);
    }
  }

  std::string At(const std::string& name) const { return files_.Path(name); }
  void Link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, At(name));
  }

  std::string ReasonOfOpen(const std::string& name) const {
    return plan::ReasonOf(roots().Open(At(name)).status());
  }
  // What is found, without the folder of the test before it.
  std::vector<std::string> Listed(const std::string& pattern) const {
    const auto found = roots().List(At(pattern), kMost);
    std::vector<std::string> names;
    if (!found.ok()) return {std::string(plan::ReasonOf(found.status()))};
    for (const std::string& path : *found) names.push_back(path.substr(At("").size()));
    return names;
  }

  FileRoots roots() const { return FileRoots({At("root")}); }

  const TestFiles files_;
};

TEST_F(FileRootsTest, OpensWhatIsBelowAndSaysWhereItIs) {
  Link("a/1.txt", "root/relative");
  Link(At("root/a"), "root/absolute");
  Link("../root/a", "root/around");
  EXPECT_EQ(roots().Open(At("root/a/1.txt"))->path, At("root/a/1.txt"));
  EXPECT_EQ(roots().Open(At("root/./a//../a/1.txt"))->path, At("root/a/1.txt"));
  EXPECT_EQ(roots().Open(At("root/relative"))->path, At("root/a/1.txt"));
  EXPECT_EQ(roots().Open(At("root/absolute/2.txt"))->path, At("root/a/2.txt"));
  EXPECT_EQ(roots().Open(At("root/around/2.txt"))->path, At("root/a/2.txt"));
  EXPECT_EQ(FileRoots({}).Open(At("root/absolute/2.txt"))->path, At("root/a/2.txt"));
  Link(At("root"), "alias");
  EXPECT_EQ(FileRoots({At("alias")}).Open(At("alias/a/1.txt"))->path, At("root/a/1.txt"));
  EXPECT_EQ(FileRoots({At("alias")}).Open(At("root/a/1.txt"))->path, At("root/a/1.txt"));
  EXPECT_EQ(FileRoots({At("root/a"), At("outside")}).Open(At("outside/secret.txt"))->path,
            At("outside/secret.txt"));
}

TEST_F(FileRootsTest, SaysWhatIsMissingAndWhatIsNoFile) {
  EXPECT_EQ(ReasonOfOpen("root/absent"), plan::kSourceMissing);
  EXPECT_EQ(ReasonOfOpen("root/a/1.txt/below"), plan::kSourceMissing);
  EXPECT_EQ(ReasonOfOpen("root/a"), plan::kSourceMissing);
  ASSERT_EQ(::mkfifo(At("root/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReasonOfOpen("root/pipe"), plan::kSourceMissing);
  Link("loop", "root/loop");
  EXPECT_TRUE(absl::IsUnavailable(roots().Open(At("root/loop")).status()));
  EXPECT_EQ(plan::ReasonOf(FileRoots({At("no-such-root")}).Open(At("no-such-root/x")).status()),
            plan::kPathRefused);
}

// Files that exist there, files that do not, and links to both are refused in the same words.
TEST_F(FileRootsTest, Finding16_WhatIsOutsideIsNeverLookedAt) {
  Link(At("outside/secret.txt"), "root/there");
  Link(At("outside/absent.txt"), "root/not-there");
  Link("../outside", "root/way");
  for (const char* name :
       {"outside/secret.txt", "outside/absent.txt", "root/../outside/secret.txt", "root/there",
        "root/not-there", "root/way/secret.txt", "root/way/absent.txt", "rootless", "roo"}) {
    const absl::Status error = roots().Open(At(name)).status();
    EXPECT_EQ(plan::ReasonOf(error), plan::kPathRefused) << name;
    EXPECT_THAT(std::string(error.message()), HasSubstr(At(name) + " is outside of what"));
    EXPECT_THAT(std::string(error.message()), Not(HasSubstr("secret.txt is not"))) << name;
  }
  for (const char* pattern : {"outside/*", "out*/*", "root/way/*", "root/way/secret.*",
                              "root/../outside/*.txt", "root/../absent/*.txt"}) {
    EXPECT_THAT(Listed(pattern), ElementsAre(std::string(plan::kPathRefused))) << pattern;
  }
}

TEST_F(FileRootsTest, ListsAsAShellDoes) {
  files_.Write("root/a/.hidden.txt", "");
  EXPECT_THAT(Listed("root/a/*.txt"), ElementsAre("root/a/1.txt", "root/a/2.txt"));
  // By whole names: '-' comes before '/'.
  EXPECT_THAT(Listed("root/*/1.txt"), ElementsAre("root/a/1.txt", "root/b-c/1.txt"));
  EXPECT_THAT(Listed("root/a/[!1].txt"), ElementsAre("root/a/2.txt"));
  EXPECT_THAT(Listed("root/a/?.txt"), ElementsAre("root/a/1.txt", "root/a/2.txt"));
  EXPECT_THAT(Listed("root/a/{2,1}.txt"), ElementsAre("root/a/2.txt", "root/a/1.txt"));
  EXPECT_THAT(Listed("root/\\{x\\}.txt"), ElementsAre("root/{x}.txt"));
  EXPECT_THAT(Listed("root/a/.h*"), ElementsAre("root/a/.hidden.txt"));
  EXPECT_THAT(Listed("root/a"), ElementsAre(std::string(plan::kSourceMissing)));
  EXPECT_THAT(Listed("root/*/absent"), ElementsAre(std::string(plan::kSourceMissing)));
  EXPECT_THAT(Listed("root/*/1.txt/*"), ElementsAre(std::string(plan::kSourceMissing)));
  EXPECT_TRUE(absl::IsResourceExhausted(roots().List(At("root/a/*"), 1).status()));
  EXPECT_EQ(FileRoots({}).List(At("root/a/*.txt"), kMost)->size(), 2u);
}

TEST(ExpandBraces, AsAShellDoes) {
  EXPECT_THAT(*ExpandBraces("a{b,c{d,e}}f"), ElementsAre("abf", "acdf", "acef"));
  EXPECT_THAT(*ExpandBraces("{a,b}{1,2}"), ElementsAre("a1", "a2", "b1", "b2"));
  EXPECT_THAT(*ExpandBraces("{}x{,y}"), ElementsAre("{}x", "{}xy"));
  EXPECT_THAT(*ExpandBraces("open{a,b"), ElementsAre("open{a,b"));
  EXPECT_THAT(*ExpandBraces("\\{a,b\\}"), ElementsAre("\\{a,b\\}"));
}

TEST(ExpandBraces, Finding16_IsBounded) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "{a,b}";
  EXPECT_THAT(std::string(ExpandBraces(pattern).status().message()),
              HasSubstr("brace_expansions_max"));
  EXPECT_THAT(std::string(ExpandBraces(std::string(1 << 20, '{')).status().message()),
              HasSubstr("pattern_bytes_max"));
}

// A directory that becomes a link between the look and the opening leads nowhere.
TEST_F(FileRootsTest, Finding16_SwappingADirectoryForALinkLeadsNowhere) {
  fs::create_directories(At("root/swap"));
  files_.Write("root/swap/secret.txt", "mine");
  Link("../outside", "root/link");
  std::atomic<bool> over = false;
  std::thread swapper([&] {
    while (!over) {
      fs::rename(At("root/swap"), At("root/kept"));
      fs::rename(At("root/link"), At("root/swap"));
      fs::rename(At("root/swap"), At("root/link"));
      fs::rename(At("root/kept"), At("root/swap"));
    }
  });
  int opened = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto file = roots().Open(At("root/swap/secret.txt"));
    if (!file.ok()) continue;
    ++opened;
    char first[4] = {};
    ASSERT_EQ(::read(file->fd.get(), first, sizeof(first)), 4);
    ASSERT_EQ(std::string(first, sizeof(first)), "mine");
  }
  over = true;
  swapper.join();
  EXPECT_GT(opened, 0);
}

}  // namespace
}  // namespace lockstep::engine
