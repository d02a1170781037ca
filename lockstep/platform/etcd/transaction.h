// What is asked of etcd, and what it answers: transactions over keys. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::etcd {

// Of etcd, which counts every transaction that changes something.
using Revision = int64_t;

struct KeyValue {
  std::string key;
  std::string value;
  Revision created = 0;
  Revision modified = 0;
  int64_t lease = 0;  // 0: it stays
};

// That the key was created, or modified last, at this revision; 0: that there is no such key.
struct Compare {
  enum class What { kCreated, kModified };
  What what = What::kCreated;
  std::string key;
  Revision revision = 0;
};

// The keys from `key` up to `end`, which is not among them; `end` empty: only `key`.
struct Range {
  std::string key;
  std::string end = {};
  int64_t limit = 0;      // 0: all
  Revision revision = 0;  // as they were then; 0: as they are
};
struct Put {
  std::string key;
  std::string value;
  int64_t lease = 0;
};
struct Delete {
  std::string key;
  std::string end = {};
};
using Operation = std::variant<Range, Put, Delete>;

// Carries out `then` if all of `compare` holds, else `otherwise`: one step for everybody else.
struct Transaction {
  std::vector<Compare> compare = {};
  std::vector<Operation> then = {};
  std::vector<Operation> otherwise = {};
};

// What a range holds; nothing for a put or a deletion.
struct OperationResult {
  std::vector<KeyValue> found;
  bool more = false;  // `limit` cut it off
};

struct TransactionResult {
  bool succeeded = false;
  Revision revision = 0;  // of etcd, after it
  std::vector<OperationResult> results;
};

// The keys that begin with `prefix`, which is not empty and does not end in \xff.
inline std::string EndOfPrefix(std::string prefix) {
  ++prefix.back();
  return prefix;
}

// Whether the request may or may not have taken effect: nobody has said that it was refused.
inline bool IsUndecided(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::etcd
