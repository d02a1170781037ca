#include "lockstep/rendezvous/transport/ring.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/rendezvous/transport/memory_segment.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

// A ring in memory that can be shared with a child.
struct SharedRing {
  explicit SharedRing(uint64_t capacity)
      : segment(MemorySegment::CreateShared(RingBytes(capacity)).value()) {
    MakeRing(memory());
  }
  std::span<std::byte> memory() { return {segment->mutable_data(), segment->bytes()}; }
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(segment->mutable_data()); }
  RingWriter writer() { return RingWriter::Open(memory()).value(); }
  RingReader reader() { return RingReader::Open(memory()).value(); }

  std::unique_ptr<MemorySegment> segment;
};

// The next message; what is wrong, or "" for none, otherwise.
std::string Read(RingReader& reader) {
  std::string message;
  const auto read = reader.TryRead(message);
  if (!read.ok()) return std::string(read.status().message());
  return *read ? message : "";
}

TEST(Ring, BringsMessagesInOrder) {
  SharedRing ring(1024);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  EXPECT_FALSE(reader.HasSomething());
  const std::string_view parts[] = {"one ", "", "message"};
  EXPECT_TRUE(writer.TryWrite(parts).value());
  EXPECT_TRUE(writer.TryWrite("another").value());
  EXPECT_TRUE(reader.HasSomething());
  EXPECT_EQ(Read(reader), "one message");
  EXPECT_EQ(Read(reader), "another");
  EXPECT_FALSE(reader.HasSomething());
  EXPECT_EQ(Read(reader), "");
}

TEST(Ring, BringsMessagesWithoutBytes) {
  SharedRing ring(64);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  std::string message = "old";
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(writer.TryWrite("").value());
    ASSERT_TRUE(reader.TryRead(message).value());
    ASSERT_EQ(message, "");
  }
}

TEST(Ring, WrapsAroundInTheMidstOfAMessage) {
  SharedRing ring(64);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  for (int i = 0; i < 100; ++i) {
    const std::string message(1 + i % 16, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(writer.TryWrite(message).value());
    ASSERT_EQ(Read(reader), message);
  }
}

TEST(Ring, HasNoRoomUntilSomethingIsRead) {
  SharedRing ring(64);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(writer.TryWrite("twelve bytes").value());
  EXPECT_FALSE(writer.TryWrite("").value());
  EXPECT_EQ(Read(reader), "twelve bytes");
  EXPECT_TRUE(writer.TryWrite("and again").value());
  EXPECT_FALSE(writer.TryWrite("").value());
}

TEST(Ring, NamesTheLimitOfAMessage) {
  SharedRing ring(1024);
  RingWriter writer = ring.writer();
  EXPECT_TRUE(writer.TryWrite(std::string(256, 'x')).value());
  const auto written = writer.TryWrite(std::string(257, 'x'));
  EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(written.status().message()), HasSubstr("ring_message_bytes_max"));
  EXPECT_TRUE(writer.TryWrite("still usable").value());
}

TEST(Ring, IsNotOpenedWhereThereIsNone) {
  SharedRing ring(1024);
  ring.header().magic = 1;
  EXPECT_EQ(RingReader::Open(ring.memory()).status().code(), absl::StatusCode::kInvalidArgument);
  MakeRing(ring.memory());
  ring.header().version = 2;
  EXPECT_THAT(std::string(RingWriter::Open(ring.memory()).status().message()),
              HasSubstr("version 2"));
  MakeRing(ring.memory());
  ring.header().capacity = 2048;
  EXPECT_FALSE(RingReader::Open(ring.memory()).ok());
  EXPECT_FALSE(RingReader::Open(ring.memory().first(100)).ok());
  EXPECT_FALSE(RingReader::Open(ring.memory().first(RingBytes(1000))).ok());
  EXPECT_FALSE(RingReader::Open({}).ok());
}

TEST(Ring, IsBrokenForGoodWhenTheWriterLies) {
  for (const uint64_t tail : {uint64_t{1}, uint64_t{1040}, ~uint64_t{7}, uint64_t{0}}) {
    SharedRing ring(1024);
    RingWriter writer = ring.writer();
    RingReader reader = ring.reader();
    ASSERT_TRUE(writer.TryWrite("good").value());
    ASSERT_EQ(Read(reader), "good");
    ring.header().tail = tail;
    EXPECT_TRUE(reader.HasSomething());
    EXPECT_THAT(Read(reader), HasSubstr("the ring of messages with the peer is broken")) << tail;
    ring.header().tail = 8;
    EXPECT_THAT(Read(reader), HasSubstr("broken"));
    EXPECT_TRUE(reader.HasSomething());
  }
}

TEST(Ring, IsBrokenWhenALengthIsALie) {
  for (const uint32_t length : {5u, 257u, 0xFFFFFFFFu, 0x80000000u}) {
    SharedRing ring(1024);
    RingWriter writer = ring.writer();
    RingReader reader = ring.reader();
    ASSERT_TRUE(writer.TryWrite("1234").value());
    std::memcpy(ring.memory().data() + kRingHeaderBytes, &length, sizeof(length));
    EXPECT_THAT(Read(reader), HasSubstr("where 8 were written")) << length;
  }
}

TEST(Ring, IsBrokenForTheWriterWhenTheReaderLies) {
  for (const uint64_t head : {uint64_t{1}, uint64_t{1032}, ~uint64_t{7}}) {
    SharedRing ring(1024);
    RingWriter writer = ring.writer();
    absl::StatusOr<bool> written = true;
    while (*written) written = writer.TryWrite(std::string(100, 'x'));
    ring.header().head = head;
    EXPECT_EQ(writer.TryWrite(std::string(100, 'x')).status().code(), absl::StatusCode::kDataLoss);
    ring.header().head = 0;
    EXPECT_EQ(writer.TryWrite("x").status().code(), absl::StatusCode::kDataLoss);
  }
}

// Scribbles over the memory between operations: nothing may be read or written elsewhere (which the
// sanitizers see), and nothing may go on for ever.
void Scribble(uint32_t seed) {
  constexpr uint64_t kCapacity = 256;
  std::mt19937 random(seed);
  // Of exactly the length, so that one byte too far is seen.
  std::vector<uint64_t> memory(RingBytes(kCapacity) / sizeof(uint64_t) + 8);
  void* begin = memory.data();
  size_t space = memory.size() * sizeof(uint64_t);
  std::align(64, RingBytes(kCapacity), begin, space);
  const std::span<std::byte> bytes(static_cast<std::byte*>(begin), RingBytes(kCapacity));
  MakeRing(bytes);
  RingWriter writer = RingWriter::Open(bytes).value();
  RingReader reader = RingReader::Open(bytes).value();
  std::string message;
  for (int step = 0; step < 300; ++step) {
    const auto written = writer.TryWrite(std::string(random() % 64, 'x'));
    if (random() % 16 == 0) {
      const size_t at = random() % 4 != 0 ? kRingHeaderBytes + random() % kCapacity
                                          : 64 + 64 * (random() % 2) + random() % 8;
      bytes[at] = static_cast<std::byte>(random());
    }
    int reads = 0;
    while (reader.TryRead(message).value_or(false)) {
      ASSERT_LE(message.size(), RingMessageBytesMax(kCapacity));
      ASSERT_LT(++reads, 33) << "more messages than the ring has room for";
    }
    if (!written.ok()) return;
  }
}

TEST(Ring, SurvivesWhatEverThePeerWrites) {
  for (uint32_t seed = 1; seed <= 2000; ++seed) Scribble(seed);
}

// Messages that tell whether they came whole: random bytes after their checksum.
class Messages {
 public:
  explicit Messages(uint32_t seed) : random_(seed), noise_(4096, '\0') {
    for (char& c : noise_) c = static_cast<char>(random_());
  }

  void Write(RingWriter& writer) {
    const std::string_view body =
        std::string_view(noise_).substr(random_() % 3000, random_() % (random_() % 16 ? 64 : 1000));
    const uint32_t crc = Crc32c(count_++, body);
    const std::string_view parts[] = {{reinterpret_cast<const char*>(&crc), sizeof(crc)}, body};
    while (!writer.TryWrite(parts).value()) ::sched_yield();
  }

  bool Expect(RingReader& reader) {
    while (!reader.TryRead(message_).value()) ::sched_yield();
    uint32_t crc = 0;
    if (message_.size() < sizeof(crc)) return false;
    std::memcpy(&crc, message_.data(), sizeof(crc));
    return crc == Crc32c(count_++, std::string_view(message_).substr(sizeof(crc)));
  }

 private:
  std::mt19937 random_;
  std::string noise_;
  std::string message_;
  uint32_t count_ = 0;
};

TEST(Ring, BringsAMillionMessagesFromThreadToThread) {
  constexpr int kMessages = 1'000'000;
  SharedRing ring(16 << 10);
  std::thread thread([&ring] {
    RingWriter writer = ring.writer();
    Messages messages(1);
    for (int i = 0; i < kMessages; ++i) messages.Write(writer);
  });
  RingReader reader = ring.reader();
  Messages messages(1);
  int wrong = 0;
  for (int i = 0; i < kMessages; ++i) wrong += messages.Expect(reader) ? 0 : 1;
  thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(reader.HasSomething());
}

TEST(Ring, BringsMessagesFromProcessToProcess) {
  constexpr int kMessages = 100'000;
  SharedRing ring(4096);
  const pid_t child = ::fork();
  if (child == 0) {
    RingWriter writer = ring.writer();
    Messages messages(2);
    for (int i = 0; i < kMessages; ++i) messages.Write(writer);
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  RingReader reader = ring.reader();
  Messages messages(2);
  int wrong = 0;
  for (int i = 0; i < kMessages; ++i) wrong += messages.Expect(reader) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace lockstep::transport
