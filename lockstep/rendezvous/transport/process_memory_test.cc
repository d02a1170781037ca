#include "lockstep/rendezvous/transport/process_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

ProcessMemory Own(const MemoryProof& proof,
                  ProcessMemory::ReadFunction read = ProcessMemory::SystemRead) {
  return ProcessMemory(::getpid(), proof.address(), proof.bytes(), std::move(read));
}

uint64_t AddressOf(const void* at) { return reinterpret_cast<uint64_t>(at); }

std::vector<std::byte> Pattern(size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 31 + i / 251);
  return pattern;
}

// As the kernel does when what is read ends: at most `most` bytes.
ProcessMemory::ReadFunction InPiecesOf(size_t most) {
  return [most](pid_t pid, const iovec* to, unsigned long to_count, const iovec* from,
                unsigned long from_count) {
    if (to->iov_len <= most) {
      return ProcessMemory::SystemRead(pid, to, to_count, from, from_count);
    }
    const iovec short_to = {to->iov_base, most};
    const iovec short_from = {from->iov_base, most};
    return ProcessMemory::SystemRead(pid, &short_to, 1, &short_from, 1);
  };
}

ProcessMemory::ReadFunction FailingWith(int error) {
  return [error](pid_t, const iovec*, unsigned long, const iovec*, unsigned long) -> ssize_t {
    errno = error;
    return -1;
  };
}

TEST(ProcessMemory, ReadsWhatAnotherProcessHas) {
  MemoryProof proof;
  const std::vector<std::byte> pattern = Pattern(3 << 20);
  std::vector<std::byte> theirs(pattern.size());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Here at the same addresses, and no longer what the parent has.
    std::copy(pattern.begin(), pattern.end(), theirs.begin());
    const bool told = ::write(ready[1], "x", 1) == 1;
    while (told) ::pause();
    ::_exit(1);
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  std::vector<std::byte> into(pattern.size());
  const ProcessMemory memory(child, proof.address(), proof.bytes());
  const absl::Status read = memory.Read(AddressOf(theirs.data()), into);
  if (absl::IsPermissionDenied(read)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    GTEST_SKIP() << read;
  }
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_TRUE(into == pattern);

  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(absl::IsNotFound(memory.Check())) << memory.Check();
  EXPECT_TRUE(absl::IsNotFound(memory.Read(AddressOf(theirs.data()), into)));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(ProcessMemory, GoesOnBehindAShortRead) {
  MemoryProof proof;
  const std::vector<std::byte> pattern = Pattern(100'000);
  std::vector<std::byte> into(pattern.size());
  const absl::Status read = Own(proof, InPiecesOf(4096)).Read(AddressOf(pattern.data()), into);
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_TRUE(into == pattern);
}

TEST(ProcessMemory, IsNotReadWhenTheProofIsAnother) {
  MemoryProof proof;
  MemoryProof other;
  const ProcessMemory memory(::getpid(), proof.address(), other.bytes());
  EXPECT_TRUE(absl::IsNotFound(memory.Check()));
  std::vector<std::byte> into(10);
  EXPECT_TRUE(absl::IsNotFound(memory.Read(AddressOf(into.data()), into)));
}

TEST(ProcessMemory, IsNotReadAnyMoreBehindTheProofsEnd) {
  MemoryProof proof;
  const ProcessMemory memory = Own(proof);
  const std::vector<std::byte> pattern = Pattern(10);
  std::vector<std::byte> into(10);
  ASSERT_TRUE(memory.Read(AddressOf(pattern.data()), into).ok());
  proof.Erase();
  EXPECT_EQ(proof.bytes(), "");
  EXPECT_TRUE(absl::IsNotFound(memory.Check()));
  EXPECT_TRUE(absl::IsNotFound(memory.Read(AddressOf(pattern.data()), into)));
}

// What is given back behind the copy and before its end is found out.
TEST(ProcessMemory, ReadsTheProofBehindTheBytes) {
  MemoryProof proof;
  const std::vector<std::byte> pattern = Pattern(8192);
  std::vector<std::byte> into(8192);
  const auto erase_in_the_midst = [&](pid_t pid, const iovec* to, unsigned long to_count,
                                      const iovec* from, unsigned long from_count) {
    const ssize_t count = InPiecesOf(4096)(pid, to, to_count, from, from_count);
    proof.Erase();
    return count;
  };
  EXPECT_TRUE(
      absl::IsNotFound(Own(proof, erase_in_the_midst).Read(AddressOf(pattern.data()), into)));
}

TEST(ProcessMemory, SaysThatThereIsNoSuchMemory) {
  MemoryProof proof;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  std::vector<std::byte> into(2 * page);
  const ProcessMemory memory = Own(proof);
  // The first half of it is there.
  EXPECT_TRUE(absl::IsInvalidArgument(memory.Read(AddressOf(pages), into)));
  EXPECT_TRUE(absl::IsInvalidArgument(memory.Read(AddressOf(pages) + page, into)));
  EXPECT_TRUE(absl::IsInvalidArgument(memory.Read(0, into)));
  EXPECT_TRUE(absl::IsInvalidArgument(memory.Read(UINT64_MAX - 10, into)));
  EXPECT_TRUE(memory.Read(AddressOf(pages), std::span(into).first(page)).ok());
  ::munmap(pages, 2 * page);
}

TEST(ProcessMemory, SaysWhoForbidsIt) {
  MemoryProof proof;
  const absl::Status forbidden = Own(proof, FailingWith(EPERM)).Check();
  EXPECT_TRUE(absl::IsPermissionDenied(forbidden));
  EXPECT_EQ(forbidden.message().substr(0, 24), "process_vm_readv failed;") << forbidden;
  EXPECT_TRUE(absl::IsUnimplemented(Own(proof, FailingWith(ENOSYS)).Check()));
  EXPECT_TRUE(absl::IsNotFound(Own(proof, FailingWith(ESRCH)).Check()));
  EXPECT_TRUE(absl::IsNotFound(Own(proof, FailingWith(EFAULT)).Check()));
}

TEST(MemoryProof, IsNewEachTime) {
  const MemoryProof first;
  const MemoryProof second;
  EXPECT_EQ(first.bytes().size(), kMemoryProofBytes);
  EXPECT_NE(first.bytes(), second.bytes());
}

}  // namespace
}  // namespace lockstep::transport
