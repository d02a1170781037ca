#include "lockstep/platform/etcd/testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/etcd/client.h"

namespace lockstep::etcd {
namespace {

constexpr char kProgram[] = LOCKSTEP_ETCD;
constexpr absl::Duration kLook = absl::Milliseconds(20);

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  LOCKSTEP_CHECK(fd >= 0 && bind(fd, generic, size) == 0);
  LOCKSTEP_CHECK(getsockname(fd, generic, &size) == 0);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

bool EtcdMembers::Available() { return access(kProgram, X_OK) == 0; }

EtcdMembers::EtcdMembers(size_t count, std::vector<std::string> arguments)
    : arguments_(std::move(arguments)),
      directory_(access("/dev/shm", W_OK) == 0 ? "/dev/shm/lockstep-etcd-XXXXXX"
                                               : "/tmp/lockstep-etcd-XXXXXX") {
  LOCKSTEP_CHECK(mkdtemp(directory_.data()) != nullptr);
  for (size_t i = 0; i < count; ++i) {
    members_.push_back({.client_port = FreePort(), .peer_port = FreePort()});
  }
  for (Member& member : members_) Start(member);
  for (size_t i = 0; i < count; ++i) AwaitReady(i);
}

EtcdMembers::~EtcdMembers() {
  for (size_t i = 0; i < members_.size(); ++i) Kill(i);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string EtcdMembers::NameOf(const Member& member) const {
  return absl::StrCat("m", &member - members_.data());
}

void EtcdMembers::Start(Member& member) {
  const auto url = [](int port) { return absl::StrCat("http://127.0.0.1:", port); };
  std::vector<std::string> cluster;
  for (const Member& each : members_) {
    cluster.push_back(absl::StrCat(NameOf(each), "=", url(each.peer_port)));
  }
  std::vector<std::string> words = {kProgram,
                                    "--name=" + NameOf(member),
                                    "--data-dir=" + directory_ + "/" + NameOf(member),
                                    "--listen-client-urls=" + url(member.client_port),
                                    "--advertise-client-urls=" + url(member.client_port),
                                    "--listen-peer-urls=" + url(member.peer_port),
                                    "--initial-advertise-peer-urls=" + url(member.peer_port),
                                    "--initial-cluster=" + absl::StrJoin(cluster, ","),
                                    "--initial-cluster-state=new",
                                    "--logger=zap",
                                    "--log-level=error"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  member.pid = fork();
  LOCKSTEP_CHECK(member.pid >= 0);
  if (member.pid > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  execv(kProgram, argv.data());
  _exit(127);
}

Location EtcdMembers::At(const std::string& prefix) const {
  Location location{.prefix = prefix};
  for (const Member& member : members_) {
    location.endpoints.push_back(absl::StrCat("127.0.0.1:", member.client_port));
  }
  return location;
}

void EtcdMembers::AwaitReady(size_t member) const {
  Location only = At("unused");
  only.endpoints = {only.endpoints[member]};
  Client client(only, {});
  while (!client.Commit({.then = {Range{.key = "unused"}}}, absl::Seconds(1)).ok()) {
    absl::SleepFor(kLook);
  }
}

size_t EtcdMembers::Leader() const {
  Client client(At("unused"), {});
  while (true) {
    const auto all = client.StatusOfMembers(absl::Milliseconds(500));
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].ok() && all[i]->member == all[i]->leader) return i;
    }
    absl::SleepFor(kLook);
  }
}

void EtcdMembers::Kill(size_t member, bool wipe) {
  const pid_t pid = std::exchange(members_[member].pid, 0);
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  if (wipe) std::filesystem::remove_all(directory_ + "/" + NameOf(members_[member]));
}

void EtcdMembers::Restart(size_t member) { Start(members_[member]); }
void EtcdMembers::Stop(size_t member) { kill(members_[member].pid, SIGSTOP); }
void EtcdMembers::Continue(size_t member) { kill(members_[member].pid, SIGCONT); }

}  // namespace lockstep::etcd
