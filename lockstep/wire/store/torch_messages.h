// What a journal holds of torch's stores, as messages. Contract:
// proto/lockstep/store/v1/records.proto. What they mean is said in lockstep/tcpstore/records.h.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "lockstep/wire/native/field.h"

namespace lockstep::wire::store {

using native::Bytes;
using native::Field;
using native::SharedBytes;

// An empty store begins, in place of the one before.
struct TorchStoreOpened {
  int64_t attempt = 0;
  int32_t port = 0;
  bool keeps = false;  // What becomes of its keys is recorded, too.

  friend bool operator==(const TorchStoreOpened&, const TorchStoreOpened&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchStoreOpened";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "attempt", &TorchStoreOpened::attempt),
                           Field(2, "port", &TorchStoreOpened::port),
                           Field(3, "keeps", &TorchStoreOpened::keeps));
  }
};

// Somebody was told of it, or has come.
struct TorchStoreUsed {
  friend bool operator==(const TorchStoreUsed&, const TorchStoreUsed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchStoreUsed";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct TorchKeySet {
  Bytes key;
  SharedBytes value;

  friend bool operator==(const TorchKeySet&, const TorchKeySet&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchKeySet";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &TorchKeySet::key),
                           Field(2, "value", &TorchKeySet::value));
  }
};

struct TorchValueAppended {
  Bytes key;
  SharedBytes more;

  friend bool operator==(const TorchValueAppended&, const TorchValueAppended&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchValueAppended";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &TorchValueAppended::key),
                           Field(2, "more", &TorchValueAppended::more));
  }
};

struct TorchKeyDeleted {
  Bytes key;

  friend bool operator==(const TorchKeyDeleted&, const TorchKeyDeleted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchKeyDeleted";
  static constexpr auto Fields() { return std::make_tuple(Field(1, "key", &TorchKeyDeleted::key)); }
};

struct TorchQueuePushed {
  Bytes key;
  SharedBytes value;

  friend bool operator==(const TorchQueuePushed&, const TorchQueuePushed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchQueuePushed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &TorchQueuePushed::key),
                           Field(2, "value", &TorchQueuePushed::value));
  }
};

// The first value of the queue was taken.
struct TorchQueuePopped {
  Bytes key;

  friend bool operator==(const TorchQueuePopped&, const TorchQueuePopped&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchQueuePopped";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "key", &TorchQueuePopped::key));
  }
};

struct TorchStoreCleared {
  friend bool operator==(const TorchStoreCleared&, const TorchStoreCleared&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchStoreCleared";
  static constexpr auto Fields() { return std::make_tuple(); }
};

// All values under keys of the default process group were forgotten.
struct TorchGroupCleared {
  friend bool operator==(const TorchGroupCleared&, const TorchGroupCleared&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchGroupCleared";
  static constexpr auto Fields() { return std::make_tuple(); }
};

// What became of it. Exactly one is set.
struct TorchRecord {
  std::optional<TorchStoreOpened> opened;
  std::optional<TorchStoreUsed> used;
  std::optional<TorchKeySet> key_set;
  std::optional<TorchValueAppended> value_appended;
  std::optional<TorchKeyDeleted> key_deleted;
  std::optional<TorchQueuePushed> queue_pushed;
  std::optional<TorchQueuePopped> queue_popped;
  std::optional<TorchStoreCleared> cleared;
  std::optional<TorchGroupCleared> group_cleared;

  friend bool operator==(const TorchRecord&, const TorchRecord&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TorchRecord";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "opened", &TorchRecord::opened),
                           Field(2, "used", &TorchRecord::used),
                           Field(3, "key_set", &TorchRecord::key_set),
                           Field(4, "value_appended", &TorchRecord::value_appended),
                           Field(5, "key_deleted", &TorchRecord::key_deleted),
                           Field(6, "queue_pushed", &TorchRecord::queue_pushed),
                           Field(7, "queue_popped", &TorchRecord::queue_popped),
                           Field(8, "cleared", &TorchRecord::cleared),
                           Field(9, "group_cleared", &TorchRecord::group_cleared));
  }
};

}  // namespace lockstep::wire::store
