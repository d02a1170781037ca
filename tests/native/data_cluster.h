// The data service in one process: a dispatcher on a link of its own, workers, and what readers
// need. Without gRPC, so that it runs under the thread sanitizer. Tests only.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "lockstep/client/data_reader.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/worker/worker.h"
#include "lockstep/platform/journal/memory_journal.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/data_host.h"
#include "lockstep/wire/store/data_entry.h"

namespace lockstep {

// range(elements), in batches when `batch` is not 0.
inline plan::Definition Range(int64_t elements, int64_t batch = 0, int64_t segment = 0) {
  plan::Definition definition;
  definition.nodes.push_back({.id = 1, .op = "range", .attrs = {{"stop", elements}}});
  if (batch > 0) {
    definition.nodes.push_back(
        {.id = 2, .op = "batch", .inputs = {1}, .attrs = {{"count", batch}}});
  }
  if (segment > 0) definition.nodes.back().attrs["segment"] = segment;
  return definition;
}

// The numbers in an element of `Range`.
inline std::vector<int64_t> NumbersOf(const DataElement& element) {
  const auto view = engine::ElementView::Parse(element.frame());
  EXPECT_TRUE(view.ok()) << view.status();
  if (!view.ok() || view->leaves() != 1) return {};
  const auto bytes = view->leaf(0).bytes;
  std::vector<int64_t> numbers(bytes.size() / sizeof(int64_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// Threads: each server and worker has a loop of its own; everything public is for the test's
// thread.
class DataCluster {
 public:
  explicit DataCluster(dispatch::Options options = {}) : options_(std::move(options)) {
    Start("127.0.0.1:0");
  }
  ~DataCluster() {
    workers_.clear();
    Stop();
    server_.Stop();
  }

  const std::string& address() const { return address_; }

  // Returns which one it is.
  size_t AddWorker(data::WorkerOptions options = {}) {
    auto worker = std::make_unique<OneWorker>();
    options.dispatcher = *link::Servers::Read(address_);
    worker->thread.Do([&] {
      auto started = data::Worker::Start(worker->thread.loop(), options,
                                         [](absl::Status why) { ADD_FAILURE() << why; });
      ASSERT_TRUE(started.ok()) << started.status();
      worker->worker = *std::move(started);
    });
    workers_.push_back(std::move(worker));
    return workers_.size() - 1;
  }
  // As kill -9 does.
  void KillWorker(size_t i) {
    workers_[i]->thread.Do([&] { workers_[i]->worker.reset(); });
  }
  data::Worker& worker(size_t i) { return *workers_[i]->worker; }
  template <class Function>
  void OnWorker(size_t i, Function function) {
    workers_[i]->thread.Do([&] { function(*workers_[i]->worker); });
  }

  // The dispatcher is killed, until `Restart`.
  void Stop() {
    server_.Do([this] {
      link_.reset();
      host_.reset();
      // Stays: what it has posted is still to come; but it asks nobody for a snapshot any more.
      if (commits_ == nullptr) return;
      journal_->WantSnapshotAt(0);
      retired_.push_back(std::move(commits_));
    });
  }

  // The dispatcher is killed, and started again on its address with what it had written down.
  void Restart() {
    Stop();
    Start(address_);
  }

  // What operators are told, so far.
  link::testing::Seen<std::string>& events() { return events_; }

  dispatch::View View() {
    dispatch::View view;
    server_.Do([&] { view = host_->View(); });
    return view;
  }

 private:
  struct OneWorker {
    link::testing::LoopThread thread;
    std::unique_ptr<data::Worker> worker;
    ~OneWorker() {
      thread.Do([this] { worker.reset(); });
    }
  };

  void Start(const std::string& listen) {
    server_.Do([&] {
      commits_ = std::make_unique<server::CommitQueue>(server_.loop());
      host_ = std::make_unique<server::DataHost>(
          server_.loop(), options_, /*keeps=*/true, *commits_,
          /*journal_queue_bytes_max=*/size_t{64} << 20, memory_,
          [this](dispatch::Severity, std::string text) { events_.Add(std::move(text)); });
      auto journal = std::make_unique<journal::MemoryJournal>(disk_);
      const wire::store::Moment now = {.now = runtime::MonotonicNow(), .wall = absl::Now()};
      const auto replayed = journal->Replay([&](std::string_view bytes) -> absl::Status {
        auto entry = wire::store::DecodeEntry(bytes, now);
        if (!entry.ok()) return entry.status();
        for (const wire::store::ReadData& record : entry->data) host_->Restore(record);
        return absl::OkStatus();
      });
      ASSERT_TRUE(replayed.ok()) << replayed.status();
      journal->WantSnapshotAt(50);
      journal_ = journal.get();
      const absl::Status kept = commits_->Keep(
          std::move(journal), [](const absl::Status& why) { ADD_FAILURE() << why; },
          [this] { return Snapshot(); });
      ASSERT_TRUE(kept.ok()) << kept;
      host_->Resume();
      link::ServerEvents events;
      events.request = [this](link::Request request, link::Responder responder) {
        host_->Take(std::move(request), std::move(responder));
      };
      events.cancelled = [this](link::LinkId link, uint64_t id) { host_->Cancelled(link, id); };
      events.ended = [this](link::LinkId link, bool) { host_->Ended(link); };
      auto link = link::Server::Listen(server_.loop(), {.listen = listen}, std::move(events));
      ASSERT_TRUE(link.ok()) << link.status();
      link_ = *std::move(link);
      // Readers of other threads may look at it while we are started again.
      if (address_.empty()) address_ = link_->address();
    });
  }
  // All records in one entry.
  journal::SnapshotSource Snapshot() {
    const wire::store::Moment now = {.now = runtime::MonotonicNow(), .wall = absl::Now()};
    std::string entry = journal::NewEntry();
    const std::vector<dispatch::TimedRecord> records = host_->Snapshot();
    EXPECT_EQ(wire::store::EncodeDataRecords(now, records, entry), records.size());
    return [entry = std::optional(std::move(entry))]() mutable {
      return std::exchange(entry, std::nullopt);
    };
  }

  const dispatch::Options options_;
  link::testing::Seen<std::string> events_;
  const std::shared_ptr<journal::MemoryDisk> disk_ = std::make_shared<journal::MemoryDisk>();
  std::string address_;
  runtime::MemoryAccount memory_{0};
  link::testing::LoopThread server_;
  std::vector<std::unique_ptr<server::CommitQueue>> retired_;
  std::unique_ptr<server::CommitQueue> commits_;
  journal::MemoryJournal* journal_ = nullptr;  // that of `commits_`
  std::unique_ptr<server::DataHost> host_;
  std::unique_ptr<link::Server> link_;
  std::vector<std::unique_ptr<OneWorker>> workers_;
};

}  // namespace lockstep
