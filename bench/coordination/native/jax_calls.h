// The calls of jaxlib's clients, made by hand, whoever carries them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "peer.h"
#include "protozero/pbf_reader.hpp"
#include "protozero/pbf_writer.hpp"

namespace lockstep::bench {

// `Carrier` is a Peer with the method
//   Call(client, method, request, std::function<void(std::string answer)>, bool fails)
// which dies unless the call succeeds, or, with `fails`, unless it fails.
template <class Carrier>
class JaxCalls : public Carrier {
 public:
  using Carrier::Carrier;
  using Done = Peer::Done;

  void Set(size_t client, std::string key, std::string value, Done done) override {
    std::string entry;
    protozero::pbf_writer pair(entry);
    pair.add_bytes(1, key);
    pair.add_bytes(2, value);
    std::string request = Begin(client);
    protozero::pbf_writer insertion(request);
    insertion.add_message(2, entry);
    insertion.add_bool(3, true);
    this->Call(client, Method("InsertKeyValue"), std::move(request), Ignore(std::move(done)),
               false);
  }
  void Get(size_t client, std::string key, Done done) override {
    std::string request = Begin(client);
    protozero::pbf_writer(request).add_bytes(2, key);
    this->Call(
        client, Method("GetKeyValue"), std::move(request),
        [done = std::move(done)](const std::string& response) {
          protozero::pbf_reader in(response);
          std::string_view value;
          while (in.next(1)) {
            protozero::pbf_reader entry = in.get_message();
            while (entry.next(2)) {
              const protozero::data_view bytes = entry.get_view();
              value = {bytes.data(), bytes.size()};
            }
          }
          done(value);
        },
        false);
  }
  void Wait(size_t client, std::string key, Done done) override {
    Get(client, std::move(key), std::move(done));
  }
  void Barrier(size_t client, std::string id, Done done) override {
    std::string request = Begin(client);
    protozero::pbf_writer arrival(request);
    arrival.add_bytes(2, id);
    arrival.add_int64(3, 600'000);
    arrival.add_int32(5, static_cast<int32_t>(client));
    if (const int64_t counter = counters_[client][id]++; counter != 0) {
      arrival.add_int64(6, counter);
    }
    this->Call(client, Method("Barrier"), std::move(request), Ignore(std::move(done)), false);
  }
  void AwaitError(size_t client, Done done) override {
    std::string request = Begin(client);
    protozero::pbf_writer(request).add_int32(2, static_cast<int32_t>(client));
    this->Call(client, Method("PollForError"), std::move(request), Ignore(std::move(done)), true);
  }
  void Restart(size_t client, Done done) override {
    this->Call(client, Method("RegisterTask"), Registration(client, 2'000'000 + client),
               Ignore(std::move(done)), true);
  }

 protected:
  // All of them; returns when the last is answered.
  void Register(size_t clients) {
    Expect(clients);
    size_t missing = clients;
    for (size_t i = 0; i < clients; ++i) {
      RegisterOne(i, [this, &missing] {
        if (--missing == 0) this->Stop();
      });
    }
    this->Run();
  }
  // Before the first `RegisterOne`.
  void Expect(size_t clients) { counters_.resize(clients); }
  void RegisterOne(size_t client, std::function<void()> done) {
    this->Call(
        client, Method("RegisterTask"), Registration(client, 1000 + client),
        [this, done = std::move(done)](const std::string& response) {
          protozero::pbf_reader in(response);
          while (in.next(1)) service_ = in.get_fixed64();
          done();
        },
        false);
  }

 private:
  static std::function<void(std::string)> Ignore(Done done) {
    return [done = std::move(done)](const std::string&) { done({}); };
  }
  static std::string Method(const char* name) {
    return absl::StrCat("/xla.coordination.CoordinationService/", name);
  }
  static std::string Registration(size_t client, uint64_t incarnation) {
    std::string request;
    protozero::pbf_writer registration(request);
    registration.add_fixed64(3, incarnation);
    registration.add_int32(5, static_cast<int32_t>(client));
    return request;
  }
  std::string Begin(size_t client) const {
    std::string who;
    protozero::pbf_writer incarnations(who);
    incarnations.add_fixed64(2, 1000 + client);
    incarnations.add_fixed64(3, service_);
    std::string request;
    protozero::pbf_writer(request).add_message(1, who);
    return request;
  }

  uint64_t service_ = 0;
  std::vector<std::map<std::string, int64_t>> counters_;
};

}  // namespace lockstep::bench
