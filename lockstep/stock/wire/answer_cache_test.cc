#include "lockstep/stock/wire/answer_cache.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep::wire::stock {
namespace {

// Answers with what it was asked, and counts how often it had to.
class CountingFamily final : public Family {
 public:
  std::string_view service() const override { return "test"; }
  std::span<const std::string_view> methods() const override { return {}; }
  Decoded Decode(size_t, google::protobuf::io::ZeroCopyInputStream*, CallContext) const override {
    return {};
  }
  bool requests_name_the_attempt() const override { return true; }
  EncodedAnswer EncodeAnswer(size_t method, const coord::Answer& answer,
                             const Asked* asked) const override {
    ++encoded;
    const auto* watched = std::get_if<coord::MembersWatched>(&answer);
    return {absl::StrCat(method, " ", watched ? watched->version : -1, " ",
                         asked ? asked->role : "nobody"),
            nullptr};
  }
  EncodedError EncodeError(const coord::Error& error, const Asked* asked) const override {
    ++encoded;
    return {.message = absl::StrCat(error.message, " ", asked ? asked->role : "nobody")};
  }

  mutable int encoded = 0;
};

coord::MembersWatched Watched(int64_t version) {
  static const auto members = std::make_shared<const std::vector<coord::MemberStatus>>();
  return {members, version};
}

TEST(AnswerCache, EncodesOneListOnceForAllWhoWait) {
  CountingFamily family;
  AnswerCache cache;
  EncodedAnswer first = cache.Answer(family, 1, Watched(1), nullptr);
  EncodedAnswer second = cache.Answer(family, 1, Watched(1), nullptr);
  EXPECT_EQ(*first.tail, "1 1 nobody");
  EXPECT_EQ(first.tail, second.tail);
  EXPECT_EQ(family.encoded, 1);
}

TEST(AnswerCache, TellsApartWhatHasOtherBytes) {
  CountingFamily family, other;
  AnswerCache cache;
  Asked worker{.role = "worker"};
  EXPECT_EQ(*cache.Answer(family, 1, Watched(1), nullptr).tail, "1 1 nobody");
  EXPECT_EQ(*cache.Answer(family, 1, Watched(2), nullptr).tail, "1 2 nobody");
  EXPECT_EQ(*cache.Answer(family, 2, Watched(2), nullptr).tail, "2 2 nobody");
  EXPECT_EQ(*cache.Answer(family, 2, Watched(2), &worker).tail, "2 2 worker");
  EXPECT_EQ(*cache.Answer(other, 2, Watched(2), &worker).tail, "2 2 worker");
  EXPECT_EQ(other.encoded, 1);
}

TEST(AnswerCache, ShortAnswersAreNotKept) {
  CountingFamily family;
  AnswerCache cache;
  EXPECT_EQ(cache.Answer(family, 1, std::monostate(), nullptr).head, "1 -1 nobody");
  EXPECT_EQ(cache.Answer(family, 1, std::monostate(), nullptr).head, "1 -1 nobody");
  EXPECT_EQ(family.encoded, 2);
}

TEST(AnswerCache, EncodesOneErrorOnceForAllWhoCallTheirRoleAlike) {
  CountingFamily family;
  AnswerCache cache;
  const auto error = coord::MakeError(coord::Error{.message = "lost"});
  Asked worker{.role = "worker"}, same{.role = "worker"};
  EXPECT_EQ(cache.Error(family, error, &worker).message, "lost worker");
  EXPECT_EQ(cache.Error(family, error, &same).message, "lost worker");
  EXPECT_EQ(family.encoded, 1);
  EXPECT_EQ(cache.Error(family, error, nullptr).message, "lost nobody");
}

}  // namespace
}  // namespace lockstep::wire::stock
