#include "lockstep/rendezvous/transport/memory_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

// Linux 5.1 and 5.14; the headers may be older than the kernel.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace lockstep::transport {
namespace {

constexpr char kWithoutSharedMemory[] =
    "allow it (a seccomp profile may forbid it), or do without shared memory";

absl::Status CheckLength(uint64_t bytes) {
  if (bytes > 0 && bytes <= static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a segment of shared memory cannot be ", bytes, " bytes long"));
}

absl::StatusOr<runtime::UniqueFd> MakeFile(uint64_t bytes) {
  if (absl::Status status = CheckLength(bytes); !status.ok()) return status;
  runtime::UniqueFd fd(::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return SystemCallError("memfd_create", errno, kWithoutSharedMemory);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemCallError(absl::StrCat("ftruncate to ", bytes, " bytes"), errno,
                           "RLIMIT_FSIZE limits the size of files, of shared memory too");
  }
  return fd;
}

absl::Status AddSeals(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS, seals) == 0) return absl::OkStatus();
  return SystemCallError("fcntl(F_ADD_SEALS)", errno,
                         "Linux 5.1 or newer is needed to share memory with other processes");
}

// Of a descriptor that a peer sent.
absl::Status CheckPeersFile(int fd, uint64_t bytes) {
  if (absl::Status status = CheckLength(bytes); !status.ok()) return status;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) {
    return absl::InvalidArgumentError(
        "the peer sent a descriptor that is no sealable memory; expected a memfd");
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError(
        "the peer sent memory that it could make shorter; expected F_SEAL_SHRINK");
  }
  struct stat about;
  if (::fstat(fd, &about) != 0) return SystemCallError("fstat", errno, "of a peer's memory");
  if (static_cast<uint64_t>(about.st_size) < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the peer sent memory of ", about.st_size,
                                                   " bytes and said that it has ", bytes));
  }
  return absl::OkStatus();
}

// For kernels before 5.14. Reading is enough to get a page of a shared mapping.
void TouchPages(const std::byte* data, uint64_t bytes, uint64_t page) {
  for (uint64_t at = 0; at < bytes; at += page) {
    static_cast<void>(*static_cast<const volatile std::byte*>(data + at));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemorySegment>> MemorySegment::MapWhole(runtime::UniqueFd fd,
                                                                       uint64_t bytes,
                                                                       Access access) {
  LOCKSTEP_DCHECK(bytes > 0);
  const int protection = access == Access::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  const int kind = fd.valid() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* data = ::mmap(nullptr, bytes, protection, kind, fd.get(), 0);
  if (data == MAP_FAILED) {
    return SystemCallError(absl::StrCat("mmap of ", bytes, " bytes"), errno,
                           "RLIMIT_AS and vm.max_map_count limit what a process can map");
  }
  return std::unique_ptr<MemorySegment>(
      new MemorySegment(std::move(fd), static_cast<std::byte*>(data), bytes, access));
}

absl::StatusOr<std::unique_ptr<MemorySegment>> MemorySegment::Create(uint64_t bytes) {
  auto fd = MakeFile(bytes);
  if (!fd.ok()) return fd.status();
  auto segment = MapWhole(*std::move(fd), bytes, Access::kReadWrite);
  if (!segment.ok()) return segment;
  // After our own mapping, which the seal leaves as it is; every later one is for reading only.
  const absl::Status sealed =
      AddSeals((*segment)->fd(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  if (!sealed.ok()) return sealed;
  return segment;
}

absl::StatusOr<std::unique_ptr<MemorySegment>> MemorySegment::CreateShared(uint64_t bytes) {
  auto fd = MakeFile(bytes);
  if (!fd.ok()) return fd.status();
  const absl::Status sealed = AddSeals(fd->get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (!sealed.ok()) return sealed;
  return MapWhole(*std::move(fd), bytes, Access::kReadWrite);
}

absl::StatusOr<std::unique_ptr<MemorySegment>> MemorySegment::CreatePrivate(uint64_t bytes) {
  if (absl::Status status = CheckLength(bytes); !status.ok()) return status;
  return MapWhole(runtime::UniqueFd(), bytes, Access::kReadWrite);
}

absl::StatusOr<std::unique_ptr<MemorySegment>> MemorySegment::Map(runtime::UniqueFd fd,
                                                                  uint64_t bytes, Access access) {
  if (absl::Status status = CheckPeersFile(fd.get(), bytes); !status.ok()) return status;
  auto segment = MapWhole(std::move(fd), bytes, access);
  if (segment.ok()) (*segment)->fd_.reset();
  return segment;
}

MemorySegment::~MemorySegment() { ::munmap(data_, bytes_); }

std::byte* MemorySegment::mutable_data() {
  LOCKSTEP_CHECK(access_ == Access::kReadWrite);
  return data_;
}

absl::Status MemorySegment::Populate(uint64_t offset, uint64_t bytes) {
  LOCKSTEP_CHECK(offset <= bytes_ && bytes <= bytes_ - offset);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t length = offset + bytes - begin;
  const int advice = access_ == Access::kReadOnly ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  int result = 0;
  do {
    result = ::madvise(data_ + begin, length, advice);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return absl::OkStatus();
  if (errno == EINVAL) {
    TouchPages(data_ + begin, length, page);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the system has no memory for ", bytes, " bytes that are to be shared (",
                   absl::ErrnoToStatus(errno, "madvise").message(),
                   "); hold less at a time, or give this process more"));
}

}  // namespace lockstep::transport
