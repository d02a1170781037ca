#include "lockstep/platform/runtime/server_list.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kOneDigest(64, 'a');
const std::string kOtherDigest(64, 'b');

std::string ErrorOf(const std::string& text) {
  const auto list = ReadServerList(text);
  EXPECT_FALSE(list.ok()) << text;
  return std::string(list.status().message());
}

// A file that is gone afterwards.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = ::mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    Write(text);
  }
  ~TextFile() { ::unlink(path_.c_str()); }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  const std::string& path() const { return path_; }
  std::string url() const { return "file://" + path_; }

 private:
  std::string path_ = ::testing::TempDir() + "lockstep-servers-XXXXXX";
};

TEST(ServerList, OneAddressIsReadAsEver) {
  const auto list = ParseServerList("lockstep://[::1]:7070/digits#sha256=" + kOneDigest);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->addresses, ElementsAre(Address{"::1", 7070, kOneDigest}));
  EXPECT_EQ(list->job, "digits");
  for (const char* text : {"", "host", "h:1x", "lockstep://h:1#md5=1"}) {
    EXPECT_EQ(ErrorOf(text), ParseJoinString(text).status().message()) << text;
  }
}

TEST(ServerList, SeveralAddressesHaveCommasBetweenThem) {
  const auto list = ParseServerList("a:1, [::1]:2,a:1");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->addresses, ElementsAre(Address{"a", 1}, Address{"::1", 2}));
  EXPECT_EQ(ToString(*list), "a:1, [::1]:2");
}

TEST(ServerList, EachJoinStringHasItsCertificateAndAllHaveOneJob) {
  const auto list = ParseServerList(absl::StrCat("lockstep://a:1#sha256=", kOneDigest,
                                                 ",lockstep://b:1/digits#sha256=", kOtherDigest));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->addresses,
              ElementsAre(Address{"a", 1, kOneDigest}, Address{"b", 1, kOtherDigest}));
  EXPECT_EQ(list->job, "digits");
  EXPECT_THAT(ErrorOf("lockstep://a:1/one,lockstep://b:1/two"),
              HasSubstr("two jobs, \"one\" and \"two\""));
  EXPECT_THAT(ErrorOf(absl::StrCat("a:1,lockstep://a:1#sha256=", kOneDigest)),
              HasSubstr("a:1 twice, with different certificates"));
}

TEST(ServerList, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf("a:1,"), HasSubstr("an address is missing beside a comma"));
  EXPECT_THAT(ErrorOf("a:1,b"), HasSubstr("address 'b': has no port"));
  std::string many = "h:1";
  for (size_t port = 2; port <= kServersMax; ++port) absl::StrAppend(&many, ",h:", port);
  EXPECT_TRUE(ParseServerList(many).ok());
  EXPECT_THAT(ErrorOf(many + ",h:100"), HasSubstr("more than 16 servers (servers_max)"));
  EXPECT_THAT(ErrorOf(std::string(kServerListBytesMax + 1, 'h')),
              HasSubstr("(server_list_bytes_max)"));
}

TEST(ServerList, AFileHasAnAddressInEachLine) {
  const TextFile file("# the racks\n\n a:1 \nlockstep://b:1/digits\r\n");
  const auto list = ReadServerList(file.url());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->addresses, ElementsAre(Address{"a", 1}, Address{"b", 1}));
  EXPECT_EQ(list->job, "digits");
}

TEST(ServerList, ErrorsNameTheFile) {
  const TextFile file("a:1\nb\n");
  EXPECT_THAT(ErrorOf(file.url()), AllOf(StartsWith(file.path() + ": "), HasSubstr("address 'b'")));
  file.Write("#\n");
  EXPECT_EQ(ErrorOf(file.url()), file.path() + ": the file names no server");
  file.Write(std::string(kServerListBytesMax + 1, '\n'));
  EXPECT_THAT(ErrorOf(file.url()),
              AllOf(StartsWith(file.path() + ": "), HasSubstr("(server_list_bytes_max)")));
  EXPECT_THAT(ErrorOf("file:///not/there"), HasSubstr("/not/there"));
  EXPECT_THAT(ErrorOf("file://not/there"), HasSubstr("write file:///PATH"));
}

TEST(ServerList, IsNamedForPeople) {
  EXPECT_EQ(TheServer("h:1"), "the server at h:1");
  EXPECT_EQ(OneServer("h:1"), "the server at h:1");
  EXPECT_EQ(TheServer("h:1, i:2"), "the servers at h:1, i:2");
  EXPECT_EQ(OneServer("h:1, i:2"), "one of the servers at h:1, i:2");
  EXPECT_EQ(TheServer("file:///etc/s"), "the servers in file:///etc/s");
}

}  // namespace
}  // namespace lockstep::runtime
