#include "lockstep/server/data_speakers.h"

namespace lockstep::server {
namespace {

template <class Key>
bool LeavesIn(std::map<Key, link::LinkId>& links, link::LinkId link, const Key& who) {
  const auto at = links.find(who);
  if (at == links.end() || at->second != link) return false;
  links.erase(at);
  return true;
}

}  // namespace

void DataSpeakers::Speaks(link::LinkId link, dispatch::WorkerId worker) {
  workers_[worker] = link;
  links_[link].workers.insert(worker);
}

void DataSpeakers::Speaks(link::LinkId link, const ConsumerKey& consumer) {
  consumers_[consumer] = link;
  links_[link].consumers.insert(consumer);
}

void DataSpeakers::Closes(link::LinkId link, const ConsumerKey& consumer) {
  consumers_.erase(consumer);
  links_[link].consumers.erase(consumer);
}

bool DataSpeakers::IsUsed(link::LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() &&
         !(found->second.workers.empty() && found->second.consumers.empty());
}

DataSpeakers::OfLink DataSpeakers::EndLink(link::LinkId link) {
  auto node = links_.extract(link);
  return node.empty() ? OfLink{} : std::move(node.mapped());
}

bool DataSpeakers::Leaves(link::LinkId link, dispatch::WorkerId worker) {
  return LeavesIn(workers_, link, worker);
}

bool DataSpeakers::Leaves(link::LinkId link, const ConsumerKey& consumer) {
  return LeavesIn(consumers_, link, consumer);
}

}  // namespace lockstep::server
