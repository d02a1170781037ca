// The metadata services of three clouds and an API server of Kubernetes, as far as sources ask
// them. They insist on what the real ones insist on. Tests only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/testing/fake_http_server.h"

namespace lockstep::testing {

// Stands in every token that a fake gives; must be in nothing that people see.
inline constexpr const char* kSecret = "S3CRET";

// What a test of every source does to its fake.
class FakeCloud {
 public:
  virtual ~FakeCloud() = default;
  // NAME:OPTIONS of the source, with short intervals.
  virtual std::string spec() const = 0;
  // A notice of death in about half a minute, and no notice any more.
  virtual void Give() = 0;
  virtual void Withdraw() = 0;
  FakeHttpServer& server() { return server_; }

 protected:
  FakeHttpServer server_;
};

// One value and etag a key; waits for a change when asked to; 403 without its header or through a
// proxy.
class FakeGce final : public FakeCloud {
 public:
  FakeGce();
  ~FakeGce() override { server_.Stop(); }
  std::string spec() const override;
  void Give() override { Set("preempted", "TRUE"); }
  void Withdraw() override { Set("preempted", "FALSE"); }
  void Set(const std::string& key, const std::string& value);

 private:
  struct Value {
    std::string text;
    int etag = 1;
  };
  std::string Answer(const preempt::HttpMessage& request, FakeHttpServer::Lock& lock);
  std::map<std::string, Value> values_;
};

// Tokens, which can be made to expire, and pages, which are 404 while they are empty.
class FakeAws final : public FakeCloud {
 public:
  FakeAws();
  ~FakeAws() override { server_.Stop(); }
  std::string spec() const override;
  void Give() override;
  void Withdraw() override { Set("spot/instance-action", ""); }
  void Set(const std::string& page, const std::string& body);
  void ExpireTokens();
  // As machines before version 2.
  void ForgetTokens();
  int tokens_given();

 private:
  std::string Answer(const preempt::HttpMessage& request);
  std::map<std::string, std::string> pages_;
  std::set<std::string> tokens_;
  int tokens_given_ = 0;
  bool has_tokens_ = true;
};

// Scheduled events with an incarnation; an acknowledged one starts.
class FakeAzure final : public FakeCloud {
 public:
  FakeAzure();
  ~FakeAzure() override { server_.Stop(); }
  std::string spec() const override;
  void Give() override;
  void Withdraw() override;
  std::vector<std::string> started();

 private:
  std::string Answer(const preempt::HttpMessage& request);
  int incarnation_ = 1;
  std::string event_;  // its EventStatus; empty: there is none
  std::vector<std::string> started_;
};

// One pod on one node, read and watched. Nodes can be forbidden.
class FakeKubernetes final : public FakeCloud {
 public:
  FakeKubernetes();
  ~FakeKubernetes() override { server_.Stop(); }
  std::string spec() const override;
  void Give() override;
  void Withdraw() override;
  void Taint(const std::string& key);
  void ForbidNodes();
  void ForgetVersions();  // a watch is answered with 410

 private:
  std::string Answer(const preempt::HttpMessage& request, FakeHttpServer::Lock& lock);
  std::string Object(bool node) const;
  int version_ = 1;
  std::string reason_;  // of the pod's disruption
  std::string taint_;
  bool nodes_allowed_ = true;
  bool forgotten_ = false;
};

}  // namespace lockstep::testing
