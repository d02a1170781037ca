#include "lockstep/data/dispatch/worker_table.h"

namespace lockstep::dispatch {

namespace {

// SplitMix64's: ids that count up are spread.
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

Worker* WorkerTable::Find(WorkerId id) {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

const Worker* WorkerTable::Find(WorkerId id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::FindByAddress(const std::string& address) {
  for (auto& [id, worker] : workers_) {
    if (worker.address == address) return &worker;
  }
  return nullptr;
}

void WorkerTable::Touch(WorkerId id) {
  if (Worker* worker = Find(id); worker != nullptr) {
    ++worker->version;
    worker->dirty = true;
  }
}

void WorkerTable::TouchAll() {
  for (auto& [id, worker] : workers_) {
    ++worker.version;
    worker.dirty = true;
  }
}

bool WorkerTable::IsGood(WorkerId id, const Avoid& avoid) const {
  return workers_.count(id) > 0 && avoid.count(id) == 0;
}

std::vector<const Worker*> WorkerTable::Eligible(const Avoid& avoid) const {
  std::vector<const Worker*> all, good;
  for (const auto& [id, worker] : workers_) {
    all.push_back(&worker);
    if (avoid.count(id) == 0) good.push_back(&worker);
  }
  // Where all are to be avoided, any of them is better than none.
  return good.empty() ? all : good;
}

WorkerId WorkerTable::LeastLoaded(const Avoid& avoid) const {
  const Worker* best = nullptr;
  for (const Worker* worker : Eligible(avoid)) {
    // Of equals the one with the lowest id: the same on every run.
    if (best == nullptr || worker->load < best->load) best = worker;
  }
  return best == nullptr ? WorkerId() : best->id;
}

// Rendezvous hashing: a worker that comes or goes moves no keys but those that it takes or had.
WorkerId WorkerTable::ForKey(uint64_t key, const Avoid& avoid) const {
  const Worker* best = nullptr;
  uint64_t highest = 0;
  for (const Worker* worker : Eligible(avoid)) {
    const uint64_t weight = Mix(key ^ Mix(worker->id.value()));
    if (best == nullptr || weight > highest) {
      best = worker;
      highest = weight;
    }
  }
  return best == nullptr ? WorkerId() : best->id;
}

}  // namespace lockstep::dispatch
