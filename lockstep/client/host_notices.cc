#include "lockstep/client/host_notices.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/client/host_sources.h"
#include "lockstep/client/member.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/preempt/notice.h"

namespace lockstep {
namespace {

using client::HostSources;

constexpr auto kElectEvery = std::chrono::seconds(1);

// A lock that one process of a host holds, and that ends with it.
class HostLock {
 public:
  explicit HostLock(const std::string& name) {
    const std::string folder = Folder();
    if (folder.empty()) return;
    const std::string path =
        absl::StrCat(folder, "/lockstep-notices-", ::getuid(), "-", preempt::HashOf(name));
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
  ~HostLock() {
    if (file_ >= 0) ::close(file_);
  }
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

  // Whether we hold it now. Where there can be no lock, each process holds it: a notice that is
  // told twice is one.
  bool Take() const {
    if (file_ < 0) return true;
    struct flock all = {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    return ::fcntl(file_, F_SETLK, &all) == 0 || (errno != EACCES && errno != EAGAIN);
  }

 private:
  // One that nobody else can write to; empty: there is none. In /tmp itself another user could hold
  // the lock of ours first, and so decide that nobody watches.
  static std::string Folder() {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime != '\0') return runtime;
    std::string folder = absl::StrCat("/tmp/lockstep-", ::getuid());
    struct stat is = {};
    const bool ours = (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) &&
                      ::lstat(folder.c_str(), &is) == 0 && S_ISDIR(is.st_mode) &&
                      is.st_uid == ::getuid() && (is.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    return ours ? folder : "";
  }

  int file_ = -1;
};

bool IsSignal(const std::string& spec) {
  return spec == "signal" || absl::StartsWith(spec, "signal:");
}

}  // namespace

class HostNotices::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Member& member, bool once_a_host)
      : job_(member.preemptions()),
        host_(member.host()),
        once_a_host_(once_a_host),
        lock_(absl::StrCat(member.coordinator(), "\n", member.job())),
        timer_(client::ProcessLoop().io()) {}

  absl::Status Begin(const HostNoticesOptions& options) {
    std::vector<std::string> own, shared;
    for (const std::string& spec : options.sources) (IsSignal(spec) ? own : shared).push_back(spec);
    for (auto& [specs, into] : {std::pair(&own, &own_), std::pair(&shared, &shared_)}) {
      auto made =
          HostSources::Make({.specs = *specs}, preempt::BuiltinSources(), preempt::ThisHost());
      if (!made.ok()) return made.status();
      *into = *std::move(made);
    }
    if (absl::Status status = own_->Start(job_, {}, host_); !status.ok()) return status;
    if (absl::Status status = Elect(); !status.ok()) return status;
    watch_ = job_.Watch([weak = weak_from_this()](absl::StatusOr<PreemptionNotice> notice) {
      const auto self = weak.lock();
      if (self == nullptr || !notice.ok() || notice->open || notice->id == 0) return;
      self->own_->PreemptionEnded(notice->outcome == "saved");
      self->shared_->PreemptionEnded(notice->outcome == "saved");
    });
    client::ProcessLoop().Post([self = shared_from_this()] { self->ElectLater(); });
    return absl::OkStatus();
  }

  void End() {
    if (!Here()) return;
    {
      const MutexLock lock(mutex_);
      ended_ = true;
    }
    client::ProcessLoop().Post([self = shared_from_this()] { self->timer_.cancel(); });
    watch_.reset();
    own_.reset();
    shared_.reset();
  }

  bool looking() const {
    const MutexLock lock(mutex_);
    return elected_;
  }

  std::vector<SourceState> States() const {
    std::vector<SourceState> states;
    if (!Here()) return states;
    for (const HostSources* each : {own_.get(), shared_.get()}) {
      for (const preempt::SourceHealth& health : each->health()) {
        SourceState state = {.source = health.source,
                             .detail = health.detail,
                             .healthy = health.healthy,
                             .last_success = std::nullopt,
                             .last_error = health.last_error,
                             .successes = health.successes,
                             .failures = health.failures,
                             .notices = health.notices};
        if (health.last_success) {
          state.last_success = runtime::MonotonicNow() - *health.last_success;
        }
        states.push_back(std::move(state));
      }
    }
    return states;
  }

  bool Here() const { return generation_ == runtime::ForkGeneration(); }

 private:
  // On the loop, but for the first.
  absl::Status Elect() {
    const MutexLock lock(mutex_);
    if (ended_ || elected_ || (once_a_host_ && !lock_.Take())) return absl::OkStatus();
    elected_ = true;
    return shared_->Start(job_, {}, host_);
  }
  void ElectLater() {
    if (looking()) return;
    timer_.expires_after(kElectEvery);
    timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      const auto self = weak.lock();
      if (error || self == nullptr) return;
      // One that cannot start now could not with the others; `sources` shows that nothing is seen.
      self->Elect().IgnoreError();
      self->ElectLater();
    });
  }

  const uint64_t generation_ = runtime::ForkGeneration();
  const JobPreemptions job_;
  const std::string host_;
  const bool once_a_host_;
  const HostLock lock_;
  std::unique_ptr<HostSources> own_;     // of this process: signals
  std::unique_ptr<HostSources> shared_;  // of the host
  std::unique_ptr<JobPreemptionWatch> watch_;
  asio::steady_timer timer_;  // the loop's

  mutable Mutex mutex_;  // covers that `shared_` starts, too
  bool elected_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<HostNotices>> HostNotices::Start(Member& member,
                                                                HostNoticesOptions options) {
  auto impl = std::make_shared<Impl>(member, options.once_a_host);
  if (absl::Status status = impl->Begin(options); !status.ok()) {
    impl->End();
    return status;
  }
  return std::unique_ptr<HostNotices>(new HostNotices(std::move(impl)));
}

HostNotices::HostNotices(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostNotices::~HostNotices() {
  if (!impl_->Here()) {
    // As ~Member.
    new std::shared_ptr<Impl>(std::move(impl_));
    return;
  }
  impl_->End();
}

bool HostNotices::looking() const { return impl_->looking(); }
std::vector<SourceState> HostNotices::sources() const { return impl_->States(); }

}  // namespace lockstep
