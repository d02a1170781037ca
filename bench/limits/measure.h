// What the programs of the comparison of transfers have in common, so that they measure the same:
// a consumer asks, a producer answers with N bytes that it takes in turn from a pool, and the time
// is from asking until all N bytes are where the consumer can read them.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <vector>

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void DieOf(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

// Small values are taken from a pool that fits in a cache, as they would be just made; large ones
// are cold.
inline size_t PoolBytes(size_t bytes) {
  return bytes <= (size_t{64} << 10) ? size_t{4} << 20 : size_t{256} << 20;
}

inline size_t PoolCount(size_t bytes) {
  return std::clamp<size_t>(PoolBytes(bytes) / std::max<size_t>(bytes, 1), 1, 512);
}

// Private memory of the process, all of it present. The size of its pages changes what copies cost.
class Pages {
 public:
  Pages(size_t bytes, bool huge) : size_(std::max<size_t>(bytes, 1)) {
    constexpr size_t kHuge = size_t{2} << 20;
    mapped_ = (size_ + kHuge - 1) / kHuge * kHuge + kHuge;
    base_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) DieOf("mmap");
    auto start = reinterpret_cast<uintptr_t>(base_);
    start = (start + kHuge - 1) / kHuge * kHuge;
    data_ = reinterpret_cast<std::byte*>(start);
    if (::madvise(data_, mapped_ - kHuge, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0) {
      DieOf("madvise");
    }
    std::memset(data_, 1, size_);
  }
  ~Pages() { ::munmap(base_, mapped_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() const { return data_; }

 private:
  size_t size_;
  size_t mapped_ = 0;
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
};

// Values in turn.
class SourcePool {
 public:
  SourcePool(size_t bytes, bool huge)
      : bytes_(bytes), count_(PoolCount(bytes)), pages_(bytes * count_, huge) {
    for (size_t i = 0; i < count_; ++i) {
      std::memset(pages_.data() + i * bytes_, static_cast<int>(i), bytes_);
    }
  }
  std::span<std::byte> Next() { return pages_.bytes().subspan(next_++ % count_ * bytes_, bytes_); }
  size_t count() const { return count_; }

 private:
  size_t bytes_;
  size_t count_;
  Pages pages_;
  size_t next_ = 0;
};

// The first rounds are not counted: in them memory is used for the first time, by each value that
// is under way.
inline int WarmRounds(int rounds) { return std::max(8, rounds / 10); }

// Of all threads of a process of this host.
inline double CpuSeconds(pid_t process) {
  clockid_t clock = {};
  timespec time = {};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
    DieOf("the CPU clock of a process");
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

inline double MicrosecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Of the rounds that count.
struct Figures {
  std::vector<double> us;
  double seconds = 0;  // from the first to the last
  double cpu = 0;      // seconds, of both processes
};

inline void Print(size_t bytes, Figures figures) {
  std::sort(figures.us.begin(), figures.us.end());
  const size_t count = figures.us.size();
  const double gigabytes = static_cast<double>(bytes) * static_cast<double>(count) * 1e-9;
  std::printf(
      "{\"bytes\": %zu, \"p50_us\": %.3f, \"p99_us\": %.3f, \"gb_per_s\": %.4f, "
      "\"cpu_s_per_gb\": %.4f}\n",
      bytes, figures.us[count / 2], figures.us[count * 99 / 100], gigabytes / figures.seconds,
      figures.cpu / gigabytes);
}

inline void RunOn(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  // Where it is not allowed to run there, it runs where it may.
  ::sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace lockstep::bench
