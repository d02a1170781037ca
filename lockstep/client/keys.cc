#include "lockstep/client/keys.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "lockstep/client/errors.h"
#include "lockstep/client/typed.h"
#include "lockstep/client/watch.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/coordination_messages.h"

namespace lockstep {
namespace {

using client::CallType;
using client::MakeTyped;
using client::Typed;
namespace native = wire::native;

std::string Quoted(std::string_view verb, const std::string& key) {
  return absl::StrCat(std::string(verb), " '", key, "'");
}

KeyEntry ToEntry(native::Entry entry) {
  return {.key = std::move(entry.key),
          .value = std::move(entry.value.data),
          .revision = entry.revision};
}

std::vector<KeyEntry> ToEntries(std::vector<native::Entry> entries) {
  std::vector<KeyEntry> result;
  result.reserve(entries.size());
  for (native::Entry& entry : entries) result.push_back(ToEntry(std::move(entry)));
  return result;
}

// 0 on the wire: for ever. What is not above zero is sent so that the server refuses it.
int64_t ToWire(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return 0;
  if (ttl <= absl::ZeroDuration()) return -1;
  return std::max<int64_t>(1, absl::ToInt64Microseconds(ttl));
}

Typed<KeyEntry> GetCall(std::string key, bool wait, absl::Duration timeout) {
  std::string what = wait ? absl::StrCat("a value of key '", key, "', which nobody has set")
                          : Quoted("reading key", key);
  return MakeTyped<KeyEntry>(
      native::GetKey{.key = std::move(key), .wait = wait}, wait ? CallType::kWait : CallType::kRead,
      timeout, std::move(what),
      [](native::GetKeyReply reply) { return ToEntry(std::move(reply.entry)); });
}

absl::StatusOr<std::optional<KeyEntry>> NothingIfNotFound(absl::StatusOr<KeyEntry> entry) {
  if (entry.ok()) return *std::move(entry);
  if (ReasonOf(entry.status()) == "key_not_found") return std::nullopt;
  return entry.status();
}

Typed<std::vector<KeyEntry>> WaitAllCall(std::vector<std::string> keys, absl::Duration timeout) {
  std::string what = absl::StrCat("values of ", keys.size(), " keys, '",
                                  keys.empty() ? "" : keys.front(), "' the first");
  return MakeTyped<std::vector<KeyEntry>>(
      native::GetKeys{.keys = std::move(keys)}, CallType::kWait, timeout, std::move(what),
      [](native::GetKeysReply reply) { return ToEntries(std::move(reply.entries)); });
}

Typed<int64_t> SetCall(std::string key, std::string value, const SetOptions& options) {
  std::string what = Quoted("setting key", key);
  return MakeTyped<int64_t>(native::SetKey{.key = std::move(key),
                                           .value = {std::move(value)},
                                           .overwrite = options.overwrite,
                                           .ttl_us = ToWire(options.ttl),
                                           .with_member = options.with_member},
                            CallType::kEffect, options.timeout, std::move(what),
                            [](const native::SetKeyReply& reply) { return reply.revision; });
}

Typed<SwapResult> SwapCall(std::string key, const KeyMust& must, std::string value,
                           const SetOptions& options) {
  std::string what = Quoted("comparing and setting key", key);
  native::CompareAndSetKey request = {.key = std::move(key),
                                      .expected_revision = must.revision(),
                                      .value = {std::move(value)},
                                      .ttl_us = ToWire(options.ttl),
                                      .with_member = options.with_member};
  if (must.value().has_value()) request.expected_value = native::Bytes{*must.value()};
  request.absent = !must.value().has_value() && !must.revision().has_value();
  return MakeTyped<SwapResult>(request, CallType::kEffect, options.timeout, std::move(what),
                               [](native::CompareAndSetKeyReply reply) {
                                 SwapResult result = {.swapped = reply.swapped};
                                 if (reply.entry) result.entry = ToEntry(*std::move(reply.entry));
                                 return result;
                               });
}

Typed<int64_t> IncrementCall(std::string key, int64_t by, absl::Duration timeout) {
  std::string what = Quoted("incrementing key", key);
  return MakeTyped<int64_t>(native::IncrementKey{.key = std::move(key), .increment = by},
                            CallType::kEffect, timeout, std::move(what),
                            [](const native::IncrementKeyReply& reply) { return reply.value; });
}

Typed<int64_t> MaxCall(std::string key, int64_t value, absl::Duration timeout) {
  std::string what = Quoted("raising key", key);
  return MakeTyped<int64_t>(native::MaxKey{.key = std::move(key), .value = value},
                            CallType::kEffect, timeout, std::move(what),
                            [](const native::MaxKeyReply& reply) { return reply.value; });
}

Typed<int64_t> DeleteCall(std::string key, const DeleteOptions& options) {
  std::string what = Quoted("deleting key", key);
  return MakeTyped<int64_t>(
      native::DeleteKey{
          .key = std::move(key), .below = options.below, .expected_revision = options.revision},
      CallType::kEffect, options.timeout, std::move(what),
      [](const native::DeleteKeyReply& reply) { return reply.deleted; });
}

Typed<native::ListKeysReply> PageCall(const std::string& directory, const std::string& after,
                                      const ListOptions& options) {
  return MakeTyped<native::ListKeysReply>(
      native::ListKeys{.directory = directory, .limit = options.page, .after = after},
      CallType::kRead, options.timeout, Quoted("listing keys below", directory),
      [](native::ListKeysReply reply) { return reply; });
}

// A list that is read page by page, each in what is left of the time.
struct Listing {
  std::shared_ptr<client::Engine> engine;
  std::string directory;
  ListOptions options;
  Time deadline;  // of the whole
  std::vector<KeyEntry> entries;
  Completion<std::vector<KeyEntry>> done;

  Typed<native::ListKeysReply> NextPage() {
    ListOptions left = options;
    left.timeout = deadline - runtime::MonotonicNow();
    return PageCall(directory, entries.empty() ? "" : entries.back().key, left);
  }
  // Whether there is another page to read.
  bool Take(native::ListKeysReply reply) {
    const bool more = reply.more && !reply.entries.empty();
    for (native::Entry& entry : reply.entries) entries.push_back(ToEntry(std::move(entry)));
    return more;
  }
};

void ReadPages(std::shared_ptr<Listing> listing, std::shared_ptr<client::Chain> chain) {
  auto read = [listing, chain](absl::StatusOr<native::ListKeysReply> reply) {
    if (!reply.ok()) return listing->done(reply.status());
    if (listing->Take(*std::move(reply))) return ReadPages(listing, chain);
    listing->done(std::move(listing->entries));
  };
  chain->Begin([&] {
    auto page = listing->NextPage();
    const auto engine = listing->engine;
    return client::Start(engine, std::move(page), std::move(read));
  });
}

}  // namespace

KeyMust KeyMust::HaveValue(std::string value) {
  KeyMust must;
  must.value_ = std::move(value);
  return must;
}

KeyMust KeyMust::BeAtRevision(int64_t revision) {
  KeyMust must;
  must.revision_ = revision;
  return must;
}

absl::StatusOr<KeyEntry> Keys::Get(std::string key, CallOptions options) const {
  return Run(engine_.lock(), GetCall(std::move(key), false, options.timeout), options.interrupted);
}
Pending Keys::GetAsync(std::string key, CallOptions options, Completion<KeyEntry> done) const {
  return Start(engine_.lock(), GetCall(std::move(key), false, options.timeout), std::move(done));
}

absl::StatusOr<std::optional<KeyEntry>> Keys::TryGet(std::string key, CallOptions options) const {
  return NothingIfNotFound(Get(std::move(key), std::move(options)));
}
Pending Keys::TryGetAsync(std::string key, CallOptions options,
                          Completion<std::optional<KeyEntry>> done) const {
  return GetAsync(std::move(key), std::move(options),
                  [done = std::move(done)](absl::StatusOr<KeyEntry> entry) mutable {
                    done(NothingIfNotFound(std::move(entry)));
                  });
}

absl::StatusOr<KeyEntry> Keys::Wait(std::string key, CallOptions options) const {
  return Run(engine_.lock(), GetCall(std::move(key), true, options.timeout), options.interrupted);
}
Pending Keys::WaitAsync(std::string key, CallOptions options, Completion<KeyEntry> done) const {
  return Start(engine_.lock(), GetCall(std::move(key), true, options.timeout), std::move(done));
}

absl::StatusOr<std::vector<KeyEntry>> Keys::WaitAll(std::vector<std::string> keys,
                                                    CallOptions options) const {
  return Run(engine_.lock(), WaitAllCall(std::move(keys), options.timeout), options.interrupted);
}
Pending Keys::WaitAllAsync(std::vector<std::string> keys, CallOptions options,
                           Completion<std::vector<KeyEntry>> done) const {
  return Start(engine_.lock(), WaitAllCall(std::move(keys), options.timeout), std::move(done));
}

absl::StatusOr<int64_t> Keys::Set(std::string key, std::string value, SetOptions options) const {
  return Run(engine_.lock(), SetCall(std::move(key), std::move(value), options),
             options.interrupted);
}
Pending Keys::SetAsync(std::string key, std::string value, SetOptions options,
                       Completion<int64_t> done) const {
  return Start(engine_.lock(), SetCall(std::move(key), std::move(value), options), std::move(done));
}

absl::StatusOr<SwapResult> Keys::CompareAndSet(std::string key, KeyMust must, std::string value,
                                               SetOptions options) const {
  return Run(engine_.lock(), SwapCall(std::move(key), must, std::move(value), options),
             options.interrupted);
}
Pending Keys::CompareAndSetAsync(std::string key, KeyMust must, std::string value,
                                 SetOptions options, Completion<SwapResult> done) const {
  return Start(engine_.lock(), SwapCall(std::move(key), must, std::move(value), options),
               std::move(done));
}

absl::StatusOr<int64_t> Keys::Increment(std::string key, int64_t by, CallOptions options) const {
  return Run(engine_.lock(), IncrementCall(std::move(key), by, options.timeout),
             options.interrupted);
}
Pending Keys::IncrementAsync(std::string key, int64_t by, CallOptions options,
                             Completion<int64_t> done) const {
  return Start(engine_.lock(), IncrementCall(std::move(key), by, options.timeout), std::move(done));
}

absl::StatusOr<int64_t> Keys::Max(std::string key, int64_t value, CallOptions options) const {
  return Run(engine_.lock(), MaxCall(std::move(key), value, options.timeout), options.interrupted);
}
Pending Keys::MaxAsync(std::string key, int64_t value, CallOptions options,
                       Completion<int64_t> done) const {
  return Start(engine_.lock(), MaxCall(std::move(key), value, options.timeout), std::move(done));
}

absl::StatusOr<int64_t> Keys::Delete(std::string key, DeleteOptions options) const {
  return Run(engine_.lock(), DeleteCall(std::move(key), options), options.interrupted);
}
Pending Keys::DeleteAsync(std::string key, DeleteOptions options, Completion<int64_t> done) const {
  return Start(engine_.lock(), DeleteCall(std::move(key), options), std::move(done));
}

absl::StatusOr<std::vector<KeyEntry>> Keys::List(std::string directory, ListOptions options) const {
  Listing listing = {.engine = engine_.lock(),
                     .directory = std::move(directory),
                     .options = options,
                     .deadline = runtime::MonotonicNow() + options.timeout};
  while (true) {
    auto reply = Run(listing.engine, listing.NextPage(), options.interrupted);
    if (!reply.ok()) return reply.status();
    if (!listing.Take(*std::move(reply))) return std::move(listing.entries);
  }
}
Pending Keys::ListAsync(std::string directory, ListOptions options,
                        Completion<std::vector<KeyEntry>> done) const {
  auto listing =
      std::make_shared<Listing>(Listing{.engine = engine_.lock(),
                                        .directory = std::move(directory),
                                        .options = options,
                                        .deadline = runtime::MonotonicNow() + options.timeout,
                                        .done = std::move(done)});
  auto chain = std::make_shared<client::Chain>();
  ReadPages(std::move(listing), chain);
  return client::Chain::PendingOf(std::move(chain));
}

// --- Watch ---

class KeyWatch::Impl : public client::Watch<KeyChanges> {
 public:
  Impl(std::weak_ptr<client::Engine> engine, std::string key, int64_t after)
      : Watch(
            std::move(engine), after,
            [key = std::move(key)](int64_t from, absl::Duration timeout) {
              return MakeTyped<KeyChanges>(native::WatchKeys{.key = key, .after = from},
                                           CallType::kWait, timeout, Quoted("a change of key", key),
                                           ToChanges);
            },
            [](const KeyChanges& changes) { return changes.revision; }) {}

 private:
  static KeyChanges ToChanges(native::WatchKeysReply reply) {
    KeyChanges changes = {.revision = reply.revision, .snapshot = reply.snapshot};
    for (native::KeyChange& change : reply.changes) {
      KeyChange& added = changes.changes.emplace_back();
      added = {.key = std::move(change.key), .revision = change.revision};
      if (change.value.has_value()) added.value = std::move(change.value->data);
    }
    return changes;
  }
};

KeyWatch::KeyWatch(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
KeyWatch::~KeyWatch() { impl_->Stop(); }
absl::StatusOr<KeyChanges> KeyWatch::Next(CallOptions options) { return impl_->Next(options); }
Pending KeyWatch::NextAsync(CallOptions options, Completion<KeyChanges> done) {
  return impl_->NextAsync(options, std::move(done));
}
void KeyWatch::Stop() { impl_->Stop(); }

std::unique_ptr<KeyWatch> Keys::Watch(std::string key, int64_t after) const {
  return std::unique_ptr<KeyWatch>(
      new KeyWatch(std::make_shared<KeyWatch::Impl>(engine_, std::move(key), after)));
}

std::unique_ptr<KeyWatch> Keys::Watch(std::string key,
                                      std::function<void(absl::StatusOr<KeyChanges>)> changed,
                                      int64_t after) const {
  auto watch = Watch(std::move(key), after);
  watch->impl_->CallBack(std::move(changed));
  return watch;
}

}  // namespace lockstep
