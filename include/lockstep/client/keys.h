// The keys of a job: what its members tell each other. Public.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/client/call.h"

namespace lockstep {

namespace client {
class Engine;
}  // namespace client

// A key with a value. Keys are paths ("config/lr"; slashes at the ends do not count), values any
// bytes. A revision counts the writes to all keys of the job.
struct KeyEntry {
  std::string key;
  std::string value;
  int64_t revision = 0;  // of its last write
};

struct SetOptions {
  bool overwrite = true;                          // otherwise ALREADY_EXISTS when the key is there
  absl::Duration ttl = absl::InfiniteDuration();  // deleted when it is over
  bool with_member = false;  // deleted when the member that set it leaves or is lost
  absl::Duration timeout = absl::InfiniteDuration();  // of the whole call
  Interrupted interrupted = nullptr;
};

// What a key must be for `CompareAndSet` to write it.
class KeyMust {
 public:
  // The key has no value: it was never set, or it was deleted.
  static KeyMust NotExist() { return KeyMust(); }
  // Bytes are compared.
  static KeyMust HaveValue(std::string value);
  // It was last written at this revision.
  static KeyMust BeAtRevision(int64_t revision);

  // Neither this nor `revision`: the key must not exist.
  const std::optional<std::string>& value() const { return value_; }
  const std::optional<int64_t>& revision() const { return revision_; }

 private:
  KeyMust() = default;
  std::optional<std::string> value_;
  std::optional<int64_t> revision_;
};

struct SwapResult {
  bool swapped = false;
  std::optional<KeyEntry> entry;  // as it is now; absent when there is none
};

struct DeleteOptions {
  bool below = false;  // everything below the key, too; below the empty key is all there is
  // Only if the key was last written at this revision, else FAILED_PRECONDITION; not with `below`.
  std::optional<int64_t> revision;
  absl::Duration timeout = absl::InfiniteDuration();  // as CallOptions
  Interrupted interrupted = nullptr;
};

struct ListOptions {
  int64_t page = 1000;  // entries asked for at a time; the list is put together from all pages
  absl::Duration timeout = absl::InfiniteDuration();  // of all pages together
  Interrupted interrupted = nullptr;
};

struct KeyChange {
  std::string key;
  std::optional<std::string> value;  // absent: the key was deleted
  int64_t revision = 0;
};
struct KeyChanges {
  std::vector<KeyChange> changes;  // in the order in which they happened
  int64_t revision = 0;            // to go on after
  bool snapshot = false;           // all that is there, instead of what has changed
};

// Follows a key and everything below it. Changes of one key that come faster than they are asked
// for may be told as one; none is lost. Stops when destroyed. One `Next` at a time.
class KeyWatch {
 public:
  ~KeyWatch();
  KeyWatch(const KeyWatch&) = delete;
  KeyWatch& operator=(const KeyWatch&) = delete;

  // What has changed since the last one; the first says all that is there.
  absl::StatusOr<KeyChanges> Next(CallOptions options = {});
  // As `Next`. FAILED_PRECONDITION `call_open`: one is open already.
  Pending NextAsync(CallOptions options, Completion<KeyChanges> done);

  // Ends a `Next` that waits, and a callback's calls. A callback that runs now is waited for,
  // unless it is the caller.
  void Stop();

 private:
  friend class Keys;
  class Impl;
  explicit KeyWatch(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// The keys of a member's job, or of one that a tool looks into. Cheap to copy; a copy may outlive
// its member and then answers FAILED_PRECONDITION. Thread-safe. Limits: those of the job; see
// docs/errors.md, `limit_exceeded`.
//
// The writes of one member take effect in the order in which they were called, also across broken
// connections, and each once.
class Keys {
 public:
  // The value now: NOT_FOUND when there is none.
  absl::StatusOr<KeyEntry> Get(std::string key, CallOptions options = {}) const;
  // As `Get`. `done` gets every outcome, also a refusal that is known at once; so do those below.
  Pending GetAsync(std::string key, CallOptions options, Completion<KeyEntry> done) const;

  // As Get, but nothing when there is none.
  absl::StatusOr<std::optional<KeyEntry>> TryGet(std::string key, CallOptions options = {}) const;
  // As `TryGet`: `done` gets nothing, and no error, when there is none.
  Pending TryGetAsync(std::string key, CallOptions options,
                      Completion<std::optional<KeyEntry>> done) const;

  // Waits until the key has a value.
  absl::StatusOr<KeyEntry> Wait(std::string key, CallOptions options = {}) const;
  // As `Wait`. Parks at the server; RESOURCE_EXHAUSTED `limit_exceeded`: too many calls of this
  // member do.
  Pending WaitAsync(std::string key, CallOptions options, Completion<KeyEntry> done) const;

  // Waits until each has a value; in the order asked.
  absl::StatusOr<std::vector<KeyEntry>> WaitAll(std::vector<std::string> keys,
                                                CallOptions options = {}) const;
  // As `WaitAll`: one parked call, however many keys there are.
  Pending WaitAllAsync(std::vector<std::string> keys, CallOptions options,
                       Completion<std::vector<KeyEntry>> done) const;

  // Returns the revision of the write.
  absl::StatusOr<int64_t> Set(std::string key, std::string value, SetOptions options = {}) const;
  // As `Set`. Takes effect in the order of the calls: what is called after it need not wait for
  // `done`.
  Pending SetAsync(std::string key, std::string value, SetOptions options,
                   Completion<int64_t> done) const;

  // Writes if the key is what it must be, and says whether. `overwrite` does not count.
  absl::StatusOr<SwapResult> CompareAndSet(std::string key, KeyMust must, std::string value,
                                           SetOptions options = {}) const;
  // As `CompareAndSet`: a key that is not what it must be is no error.
  Pending CompareAndSetAsync(std::string key, KeyMust must, std::string value, SetOptions options,
                             Completion<SwapResult> done) const;

  // Adds to the number that the key holds (0 when it is not there) and returns the sum.
  absl::StatusOr<int64_t> Increment(std::string key, int64_t by = 1,
                                    CallOptions options = {}) const;
  // As `Increment`. After CANCELLED or DEADLINE_EXCEEDED the number may have been added, once.
  Pending IncrementAsync(std::string key, int64_t by, CallOptions options,
                         Completion<int64_t> done) const;

  // The key becomes the greater of its number and this one; returns it.
  absl::StatusOr<int64_t> Max(std::string key, int64_t value, CallOptions options = {}) const;
  // As `Max`, which may be called again after any error: the result is the same.
  Pending MaxAsync(std::string key, int64_t value, CallOptions options,
                   Completion<int64_t> done) const;

  // Returns how many keys were deleted.
  absl::StatusOr<int64_t> Delete(std::string key, DeleteOptions options = {}) const;
  // As `Delete`; 0: there was none. FAILED_PRECONDITION `condition_failed`: not at `revision`.
  Pending DeleteAsync(std::string key, DeleteOptions options, Completion<int64_t> done) const;

  // What is below the directory, in the order of the keys; empty: all. Pages are read one after the
  // other, so that a long list is not one moment's.
  absl::StatusOr<std::vector<KeyEntry>> List(std::string directory, ListOptions options = {}) const;
  // As `List`. `done` is called once, after the last page; cancelling ends the page under way.
  Pending ListAsync(std::string directory, ListOptions options,
                    Completion<std::vector<KeyEntry>> done) const;

  // To pull changes from. `after`: a revision to go on from; 0: begins with all that is there.
  std::unique_ptr<KeyWatch> Watch(std::string key, int64_t after = 0) const;
  // Calls `changed` for each, on a thread of the library, one after the other; with an error, which
  // is the last call, when the watch cannot go on.
  std::unique_ptr<KeyWatch> Watch(std::string key,
                                  std::function<void(absl::StatusOr<KeyChanges>)> changed,
                                  int64_t after = 0) const;

 private:
  friend class Member;
  friend class Session;
  friend class KeyWatch;
  explicit Keys(std::weak_ptr<client::Engine> engine) : engine_(std::move(engine)) {}
  std::weak_ptr<client::Engine> engine_;
};

}  // namespace lockstep
