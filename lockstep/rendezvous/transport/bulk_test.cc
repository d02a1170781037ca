#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/bulk_testing.h"

namespace lockstep::transport {
namespace {

using rendezvous::Reason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::native::FetchChunk;
using wire::native::PeerWelcome;

constexpr size_t kMiB = size_t{1} << 20;

TEST_F(BulkEnds, ALongValueIsReadFromItsSendersMemory) {
  size_t read = 0;
  WatchReads([&](uint64_t, size_t bytes) {
    read += bytes;
    return 0;
  });
  Serve();
  const std::string text = Pattern(3 * kMiB + 7);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_THAT(why_not_, ElementsAre(""));
  EXPECT_EQ(read, text.size() + kMemoryProofBytes);
}

TEST_F(BulkEnds, AShortOneComesThroughTheSocket) {
  size_t read = 0;
  WatchReads([&](uint64_t, size_t bytes) {
    read += bytes;
    return 0;
  });
  Serve();
  const std::string text = Pattern(options_.place_bytes_min - 1);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_EQ(read, kMemoryProofBytes);
}

TEST_F(BulkEnds, ManyLongValuesAreReadInTurn) {
  std::vector<uint64_t> read;
  WatchReads([&](uint64_t address, size_t bytes) {
    if (bytes == kMiB) read.push_back(address);
    return 0;
  });
  Serve();
  const std::string first = Pattern(8 * kMiB);
  const std::string second = Pattern(8 * kMiB, 1);
  Lend(1, first);
  Lend(2, second);
  const std::string& first_into = Fetch(1, first.size());
  const std::string& second_into = Fetch(2, second.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_EQ(EndOf(2), nullptr);
  EXPECT_TRUE(first_into == first);
  EXPECT_TRUE(second_into == second);
  const auto is_of_second = [&](uint64_t address) {
    const auto begin = reinterpret_cast<uint64_t>(second.data());
    return address >= begin && address < begin + second.size();
  };
  ASSERT_EQ(read.size(), 16);
  const auto first_of_second = std::find_if(read.begin(), read.end(), is_of_second);
  EXPECT_LT(first_of_second - read.begin(), 8);
}

TEST_F(BulkEnds, ValuesBeyondThePlacesThatTheServerKeepsComeThroughTheSocket) {
  server_options_.places_max = 1;
  Serve();
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.push_back(Pattern(kMiB + 1, i));
  for (uint64_t i = 0; i < texts.size(); ++i) Lend(i + 1, texts[i]);
  for (uint64_t i = 0; i < texts.size(); ++i) Fetch(i + 1, texts[i].size());
  for (uint64_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(EndOf(i + 1), nullptr);
    EXPECT_TRUE(into_[i + 1] == texts[i]) << i;
  }
}

// --- Who keeps what is read ---

TEST_F(BulkEnds, AValueIsKeptUntilItHasBeenRead) {
  bool gone = false;
  int reads = 0;
  const std::string text = Pattern(4 * kMiB);
  WatchReads([&](uint64_t, size_t bytes) {
    if (bytes != kMiB) return 0;
    // Its lease ends meanwhile.
    if (reads++ == 0) lent_.clear();
    EXPECT_FALSE(gone);
    return 0;
  });
  Serve();
  Lend(1, text, [&] { gone = true; });
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_EQ(reads, 4);
  EXPECT_TRUE(into == text);
  EXPECT_TRUE(RunUntil([&] { return gone; }));
}

TEST_F(BulkEnds, WhoStopsReadsNoMoreAndLetsGoOfTheValue) {
  bool gone = false;
  int reads = 0;
  WatchReads([&](uint64_t, size_t bytes) {
    if (bytes == kMiB) ++reads;
    return 0;
  });
  Serve();
  const std::string text = Pattern(64 * kMiB);
  Lend(1, text, [&] { gone = true; });
  Fetch(1, text.size());
  ASSERT_TRUE(RunUntil([&] { return reads > 2; }));
  fetcher_->Stop(rendezvous::OpId(1));
  ASSERT_TRUE(done_.contains(1));
  EXPECT_EQ(done_[1]->reason, Reason::kCancelled);
  const int until_then = reads;
  lent_.clear();
  EXPECT_TRUE(RunUntil([&] { return gone; }));
  EXPECT_EQ(reads, until_then);
}

TEST_F(BulkEnds, WhoStopsMakesRoomForTheNext) {
  options_.places_max = 1;
  int reads = 0;
  WatchReads([&](uint64_t, size_t bytes) {
    if (bytes == kMiB) ++reads;
    return 0;
  });
  Serve();
  const std::string first = Pattern(64 * kMiB);
  const std::string second = Pattern(2 * kMiB, 1);
  Lend(1, first);
  Lend(2, second);
  Fetch(1, first.size());
  Fetch(2, second.size());
  ASSERT_TRUE(RunUntil([&] { return reads > 2; }));
  fetcher_->Stop(rendezvous::OpId(1));
  EXPECT_EQ(EndOf(2), nullptr);
  EXPECT_TRUE(into_[2] == second);
}

TEST_F(BulkEnds, TheProofIsErasedBeforeAValueThatWasShownGoes) {
  const uint64_t* proof = nullptr;
  int reads = 0;
  WatchReads([&](uint64_t address, size_t bytes) {
    if (bytes == kMemoryProofBytes) proof = reinterpret_cast<const uint64_t*>(address);
    if (bytes == kMiB) ++reads;
    return 0;
  });
  Serve();
  const std::string text = Pattern(64 * kMiB);
  bool erased_before = false;
  Lend(1, text, [&] { erased_before = proof[0] == 0 && proof[1] == 0; });
  Fetch(1, text.size());
  ASSERT_TRUE(RunUntil([&] { return reads > 2; }));
  ASSERT_NE(proof, nullptr);
  EXPECT_NE(proof[0], 0);
  lent_.clear();
  server_->Close();
  EXPECT_TRUE(erased_before);
  // And what was read behind that does not count.
  const int until_then = reads;
  EXPECT_TRUE(RunUntil([&] { return reads > until_then || greeted_ > 1; }));
  EXPECT_FALSE(done_.contains(1));
}

// --- When reading fails ---

TEST_F(BulkEnds, WhatCannotBeReadAnyMoreGoesOnThroughTheSocketFromThere) {
  int reads = 0;
  WatchReads([&](uint64_t, size_t bytes) { return bytes == kMiB && ++reads > 2 ? EPERM : 0; });
  Serve();
  const std::string text = Pattern(4 * kMiB + 3);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(greeted_, 1);
  ASSERT_EQ(why_not_.size(), 2);
  EXPECT_THAT(why_not_[1], HasSubstr("process_vm_readv"));
  // The next ones do not try.
  Lend(2, text);
  Fetch(2, text.size());
  EXPECT_EQ(EndOf(2), nullptr);
  EXPECT_TRUE(into_[2] == text);
  EXPECT_EQ(reads, 3);
}

TEST_F(BulkEnds, AValueWhoseMemoryIsSpecialComesThroughTheSocketAndOthersAreRead) {
  const std::string special = Pattern(2 * kMiB);
  const std::string text = Pattern(2 * kMiB, 1);
  int reads = 0;
  WatchReads([&](uint64_t address, size_t bytes) {
    if (address == reinterpret_cast<uint64_t>(special.data())) return EFAULT;
    if (bytes == kMiB) ++reads;
    return 0;
  });
  Serve();
  Lend(1, special);
  Lend(2, text);
  Fetch(1, special.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into_[1] == special);
  Fetch(2, text.size());
  EXPECT_EQ(EndOf(2), nullptr);
  EXPECT_TRUE(into_[2] == text);
  EXPECT_EQ(reads, 2);
  EXPECT_THAT(why_not_, ElementsAre(""));
}

TEST_F(BulkEnds, AConnectionIsMadeAnewWhenItsProcessIsAnother) {
  int reads = 0;
  WatchReads([&](uint64_t, size_t bytes) { return bytes == kMiB && ++reads == 2 ? ESRCH : 0; });
  Serve();
  const std::string text = Pattern(4 * kMiB);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_EQ(greeted_, 2);
  EXPECT_EQ(reads, 5);  // what had come was not read again
  EXPECT_THAT(why_not_, ElementsAre("", ""));
}

TEST_F(BulkEnds, WhereItIsForbiddenValuesComeThroughTheSocketAndTheReasonIsKept) {
  WatchReads([](uint64_t, size_t) { return EPERM; });
  Serve();
  const std::string text = Pattern(2 * kMiB);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_THAT(why_not_, ElementsAre(HasSubstr("process_vm_readv failed")));
}

TEST_F(BulkEnds, WhoDoesNotShowItsMemoryIsNotRead) {
  shows_memory_ = false;
  WatchReads([](uint64_t, size_t) {
    ADD_FAILURE() << "it was read";
    return 0;
  });
  Serve();
  const std::string text = Pattern(2 * kMiB);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_THAT(why_not_, ElementsAre("the other member does not show its memory"));
}

TEST_F(BulkEnds, AMemberOfAnotherContainerIsNotRead) {
  ++theirs_.pid_namespace;
  WatchReads([](uint64_t, size_t) {
    ADD_FAILURE() << "it was read";
    return 0;
  });
  Serve();
  const std::string text = Pattern(2 * kMiB);
  Lend(1, text);
  Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_THAT(why_not_, ElementsAre(HasSubstr("process namespace")));
}

TEST_F(BulkEnds, AMemberWithAProcessIdOfAnotherIsNotRead) {
  theirs_.pid = 1;
  Serve();
  const std::string text = Pattern(2 * kMiB);
  Lend(1, text);
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  ASSERT_EQ(why_not_.size(), 1);
  EXPECT_NE(why_not_[0], "");
}

// --- Who lies ---

class Liars : public BulkEnds {
 protected:
  static std::string With(BulkHeader header, const std::string& body) {
    header.bytes = body.size();
    const BulkHeaderBytes bytes = EncodeBulkHeader(header);
    return std::string(bytes.begin(), bytes.end()) + body;
  }
  // An honest one.
  static std::string BytesOf(const std::string& text, const FetchChunk& chunk) {
    return With({.lease = chunk.lease, .offset = chunk.offset},
                text.substr(chunk.offset, chunk.bytes));
  }
  static std::string PlaceAt(uint64_t address, const FetchChunk& chunk) {
    return With({.code = BulkCode::kPlace, .lease = chunk.lease, .offset = chunk.offset},
                EncodeBulkPlace(address));
  }
  PeerWelcome Welcome() const {
    return {.version = kPeerVersion, .proof_address = proof_.address(), .proof = {proof_.bytes()}};
  }
  void MakeLiar(PeerWelcome welcome, LyingServer::Answer answer) {
    liar_ = std::make_unique<LyingServer>(std::move(welcome), std::move(answer));
    theirs_.bulk_address = liar_->address();
    MakeFetcher();
  }
  void TearDown() override {
    BulkEnds::TearDown();
    liar_ = nullptr;
  }
  void ExpectRefused(uint64_t lease) {
    const rendezvous::ErrorPtr error = EndOf(lease);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->reason, Reason::kProtocol) << error->message;
    EXPECT_THAT(error->message, HasSubstr("trainer/0"));
  }

  const MemoryProof proof_;
  std::unique_ptr<LyingServer> liar_;
};

TEST_F(Liars, AProofThatStandsNowhereIsNoProof) {
  const std::string text = Pattern(2 * kMiB);
  PeerWelcome welcome = Welcome();
  welcome.proof_address = 8;
  MakeLiar(welcome, [&](const FetchChunk& chunk) { return BytesOf(text, chunk); });
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
  EXPECT_THAT(why_not_, ElementsAre("the process does not show its memory"));
}

TEST_F(Liars, AProofThatIsTooShortIsNoProof) {
  const std::string text = Pattern(2 * kMiB);
  PeerWelcome welcome = Welcome();
  welcome.proof.data.pop_back();
  MakeLiar(welcome, [&](const FetchChunk& chunk) { return BytesOf(text, chunk); });
  Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into_[1] == text);
}

TEST_F(Liars, APlaceWhereNothingIsMappedIsNotRead) {
  const std::string text = Pattern(2 * kMiB);
  MakeLiar(Welcome(), [&](const FetchChunk& chunk) {
    return chunk.place ? PlaceAt(8, chunk) : BytesOf(text, chunk);
  });
  const std::string& into = Fetch(1, text.size());
  EXPECT_EQ(EndOf(1), nullptr);
  EXPECT_TRUE(into == text);
}

TEST_F(Liars, APlaceWhereNothingCanBeIsRefused) {
  for (const uint64_t address : {uint64_t{0}, std::numeric_limits<uint64_t>::max() - 10}) {
    MakeLiar(Welcome(), [&](const FetchChunk& chunk) { return PlaceAt(address, chunk); });
    done_.clear();
    Fetch(1, 2 * kMiB);
    ExpectRefused(1);
    fetcher_->Close();
    liar_ = nullptr;
  }
}

TEST_F(Liars, APlaceOfAnotherLengthIsRefused) {
  MakeLiar(Welcome(), [&](const FetchChunk& chunk) {
    return With({.code = BulkCode::kPlace, .lease = chunk.lease, .offset = chunk.offset}, "1234");
  });
  Fetch(1, 2 * kMiB);
  ExpectRefused(1);
}

TEST_F(Liars, APlaceInsteadOfBytesIsRefused) {
  MakeLiar(Welcome(), [&](const FetchChunk& chunk) { return PlaceAt(4096, chunk); });
  Fetch(1, 1000);
  ExpectRefused(1);
}

TEST_F(Liars, BytesInsteadOfAPlaceAreRefused) {
  const std::string text = Pattern(2 * kMiB);
  MakeLiar(Welcome(), [&](const FetchChunk& chunk) { return BytesOf(text, chunk); });
  Fetch(1, text.size());
  ExpectRefused(1);
}

TEST_F(Liars, OneWhoseProofGoesAgainAndAgainIsGivenUp) {
  MemoryProof proof;
  PeerWelcome welcome = Welcome();
  welcome.proof_address = proof.address();
  welcome.proof = {proof.bytes()};
  int reads = 0;
  WatchReads(
      [&](uint64_t, size_t bytes) { return bytes > kMemoryProofBytes && ++reads > 0 ? ESRCH : 0; });
  options_.stalled_after = absl::Milliseconds(700);
  MakeLiar(welcome, [&](const FetchChunk& chunk) { return PlaceAt(1 << 20, chunk); });
  Fetch(1, 2 * kMiB);
  const rendezvous::ErrorPtr error = EndOf(1);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->reason, Reason::kUnreachable);
  EXPECT_THAT(error->message, HasSubstr("trainer/0"));
  EXPECT_THAT(error->message, HasSubstr("does not show its memory"));
  EXPECT_GT(reads, 1);
}

}  // namespace
}  // namespace lockstep::transport
