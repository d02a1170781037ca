#include "lockstep/server/member_uri.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kPattern = "spiffe://example.org/job/{job}/member/{member}";

// "digits 3", "none", or "refused".
std::string Find(const std::vector<std::string>& uris, std::string_view pattern = kPattern) {
  const auto named = MemberUri::Parse(pattern)->Find(uris);
  if (!named.ok()) {
    EXPECT_TRUE(absl::IsPermissionDenied(named.status()));
    EXPECT_EQ(wire::native::ReasonOf(named.status()), "not_permitted");
    return "refused";
  }
  if (!named->has_value()) return "none";
  return absl::StrCat((*named)->job, " ", (*named)->member.value());
}
std::string FindPart(const std::string& job, const std::string& member) {
  return Find({absl::StrCat("spiffe://example.org/job/", job, "/member/", member)});
}

// What the address of job digits says to a client with these.
std::string RefusalIn(const std::vector<std::string>& uris) {
  const auto found = MemberUri::Parse(kPattern)->FindIn("digits", uris);
  const auto* refusal = std::get_if<coord::ErrorPtr>(&found);
  if (refusal == nullptr) return "";
  EXPECT_EQ((*refusal)->code, absl::StatusCode::kPermissionDenied);
  EXPECT_EQ((*refusal)->reason, coord::Reason::kNotPermitted);
  EXPECT_LT((*refusal)->message.size(), kErrorTextBytesMax);
  return (*refusal)->message;
}

std::string Fault(std::string_view pattern) {
  const auto parsed = MemberUri::Parse(pattern);
  if (parsed.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
  return std::string(parsed.status().message());
}

TEST(MemberUri, NamesOneMemberOfOneJob) {
  EXPECT_EQ(FindPart("digits", "3"), "digits 3");
  EXPECT_EQ(FindPart("digits", "0"), "digits 0");
  EXPECT_EQ(FindPart("a.b_c-D", "131071"), "a.b_c-D 131071");
  EXPECT_EQ(Find({"spiffe://example.org/7/digits"}, "spiffe://example.org/{member}/{job}"),
            "digits 7");
  EXPECT_EQ(Find({"urn.x://h/digits/7/end"}, "urn.x://h/{job}/{member}/end"), "digits 7");
}

TEST(MemberUri, OfAnotherKindNamesNone) {
  EXPECT_EQ(Find({}), "none");
  for (const std::string uri :
       {"", "spiffe://example.org", "spiffe://example.org/prometheus",
        "spiffe://other.org/job/digits/member/3", "spiffe://example.org.evil/job/digits/member/3",
        "spiffe://EXAMPLE.ORG/job/digits/member/3", "https://example.org/job/digits/member/3",
        "spiffe://example.org/Job/digits/member/3", "spiffe:/example.org/job/digits/member/3",
        "spiffe://example.org:443/job/digits/member/3",
        "spiffe://u@example.org/job/digits/member/3", " spiffe://example.org/job/digits/member/3",
        "spiffe://example.org//job/digits/member/3",
        "spiffe://example.org/./job/digits/member/3"}) {
    EXPECT_EQ(Find({uri}), "none") << uri;
    EXPECT_THAT(RefusalIn({uri}), HasSubstr("names no member")) << uri;
  }
}

// Begins as those of members do, so that somebody may have meant one.
TEST(MemberUri, ThatIsNotClearIsRefused) {
  for (const std::string number : {"",         "-1",         "+1",         "03",
                                   "00",       "1 ",         " 1",         "1\t",
                                   "0x1",      "1e1",        "1.0",        "131072",
                                   "1000000",  "2147483648", "4294967296", "18446744073709551617",
                                   "%33",      "3%00",       "three",      "3/",
                                   "3/4",      "3?",         "3#",         "3?x=1",
                                   "\xd9\xa3", "{member}"}) {
    EXPECT_EQ(FindPart("digits", number), "refused") << number;
  }
  EXPECT_EQ(FindPart("digits", std::string("3\0", 2)), "refused");
  EXPECT_EQ(FindPart("digits", std::string(3000, '1')), "refused");
  for (const std::string job :
       {"", ".", "..", "a/b", "../digits", "digits/..", "dig%69ts", "digits%2f", "dig its", "{job}",
        "d\xc3\xa4", "digits\n", "digits;", "digits:1", "*"}) {
    EXPECT_EQ(FindPart(job, "3"), "refused") << job;
  }
  EXPECT_EQ(FindPart(std::string("digits\0x", 8), "3"), "refused");
  EXPECT_EQ(FindPart(std::string(kMemberUriBytesMax, 'a'), "3"), "refused");
  for (const std::string uri :
       {"spiffe://example.org/job/", "spiffe://example.org/job/digits",
        "spiffe://example.org/job/digits/member", "spiffe://example.org/job/digits/member/3/",
        "spiffe://example.org/job/digits/members/3", "spiffe://example.org/job/digits//member/3"}) {
    EXPECT_EQ(Find({uri}), "refused") << uri;
  }
}

TEST(MemberUri, OneOfSeveralIsRefused) {
  const std::string own = "spiffe://example.org/job/digits/member/3";
  EXPECT_EQ(Find({own, own}), "refused");
  EXPECT_EQ(Find({own, "spiffe://example.org/job/digits/member/4"}), "refused");
  EXPECT_EQ(Find({own, "https://example.org/"}), "refused");
  EXPECT_EQ(Find({"https://example.org/", own}), "refused");
  EXPECT_EQ(Find({"https://a/", "https://b/"}), "refused");
  EXPECT_THAT(RefusalIn({own, own}), HasSubstr("several URIs"));
}

TEST(MemberUri, IsOfTheJobThatIsCalled) {
  EXPECT_EQ(RefusalIn({"spiffe://example.org/job/digits/member/3"}), "");
  EXPECT_THAT(RefusalIn({"spiffe://example.org/job/other/member/3"}),
              HasSubstr("names member 3 of job 'other'"));
  EXPECT_THAT(RefusalIn({"spiffe://example.org/job/Digits/member/3"}),
              HasSubstr("names member 3 of job 'Digits'"));
  EXPECT_THAT(RefusalIn({}), HasSubstr("has no URI"));
  EXPECT_THAT(RefusalIn({}), HasSubstr(kPattern));
}

// An authority signs what it likes, and people read errors in terminals.
TEST(MemberUri, IsShownAsTextAndNotWhole) {
  const std::string text =
      RefusalIn({absl::StrCat("spiffe://other.org/\x1b[2J\n", std::string(100'000, '\xff'))});
  EXPECT_THAT(text, HasSubstr("\\x1b[2J\\n"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  RefusalIn({std::string(100'000, '\xff'), std::string(100'000, '\xff')});
}

TEST(MemberUri, PatternsAreChecked) {
  EXPECT_EQ(Fault(kPattern), "");
  EXPECT_EQ(Fault("spiffe://a/{job}/{member}"), "");
  for (const std::string pattern : {"", "{job}/{member}", "example.org/{job}/{member}",
                                    "spiffe://a", "spiffe:/a/{job}/{member}"}) {
    EXPECT_THAT(Fault(pattern), HasSubstr("not a URI")) << pattern;
  }
  for (const std::string pattern : {"://a/{job}/{member}", "Spiffe://a/{job}/{member}",
                                    "1s://a/{job}/{member}", "s p://a/{job}/{member}"}) {
    EXPECT_THAT(Fault(pattern), HasSubstr("scheme")) << pattern;
  }
  for (const std::string pattern :
       {"spiffe:///{job}/{member}", "spiffe://A/{job}/{member}", "spiffe://{job}/{member}",
        "spiffe://a:1/{job}/{member}", "spiffe://u@a/{job}/{member}",
        "spiffe://a%20/{job}/{member}"}) {
    EXPECT_THAT(Fault(pattern), HasSubstr("between ://")) << pattern;
  }
  for (const std::string pattern :
       {"spiffe://a/", "spiffe://a/{job}/{member}/", "spiffe://a//{job}/{member}",
        "spiffe://a/../{job}/{member}", "spiffe://a/./{job}/{member}",
        "spiffe://a/%41/{job}/{member}", "spiffe://a/{job}/{member}?x",
        "spiffe://a/{job}/{member}#x", "spiffe://a/*/{job}/{member}"}) {
    EXPECT_NE(Fault(pattern), "") << pattern;
  }
  for (const std::string pattern :
       {"spiffe://a/b", "spiffe://a/{job}", "spiffe://a/{member}",
        "spiffe://a/{job}/{job}/{member}", "spiffe://a/{job}/{member}/{member}"}) {
    EXPECT_THAT(Fault(pattern), HasSubstr("each stand in it once")) << pattern;
  }
  for (const std::string pattern :
       {"spiffe://a/{job}-{member}", "spiffe://a/x{job}/{member}",
        "spiffe://a/{job}/{member}/{role}", "spiffe://a/{Job}/{member}"}) {
    EXPECT_THAT(Fault(pattern), HasSubstr("a whole part")) << pattern;
  }
  const std::string end = "/{job}/{member}";
  const std::string begin = "spiffe://a/";
  const std::string fits(kMemberUriPatternBytesMax - begin.size() - end.size(), 'x');
  EXPECT_EQ(Fault(begin + fits + end), "");
  EXPECT_THAT(Fault(begin + fits + "x" + end), HasSubstr("member_uri_pattern_bytes_max"));
  EXPECT_THAT(Fault("spiffe://a/{job}"), HasSubstr("such as spiffe://"));
}

}  // namespace
}  // namespace lockstep::server
