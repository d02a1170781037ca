// Definitions in a line of code. Pure; for tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/plan/definition.h"

namespace lockstep::plan {

// Each call adds an operator behind the last; ids are 1, 2, 3...
class Builder {
 public:
  Builder& Add(std::string op, std::vector<uint32_t> inputs,
               std::map<std::string, Attr> attrs = {}) {
    const auto id = static_cast<uint32_t>(definition_.nodes.size() + 1);
    definition_.nodes.push_back(
        {.id = id, .op = std::move(op), .inputs = std::move(inputs), .attrs = std::move(attrs)});
    return *this;
  }
  Builder& Behind(std::string op, std::map<std::string, Attr> attrs = {}) {
    return Add(std::move(op), {static_cast<uint32_t>(definition_.nodes.size())}, std::move(attrs));
  }
  Builder& Range(int64_t stop) { return Add("range", {}, {{"stop", stop}}); }
  Builder& Count(std::string op, int64_t count) {
    return Behind(std::move(op), {{"count", count}});
  }
  Builder& Shuffle(int64_t seed) { return Behind("shuffle", {{"seed", seed}}); }
  Builder& Expression(std::string op, std::string text) {
    return Behind(std::move(op), {{"expression", std::move(text)}});
  }
  // Of the last one.
  Builder& Set(std::string name, Attr value) {
    definition_.nodes.back().attrs[std::move(name)] = std::move(value);
    return *this;
  }
  Builder& At(std::string where) {
    definition_.nodes.back().where = std::move(where);
    return *this;
  }

  const Definition& definition() const { return definition_; }

 private:
  Definition definition_;
};

}  // namespace lockstep::plan
