#include "lockstep/coord/key_lists.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/coord/key_checks.h"
#include "lockstep/coord/key_name.h"
#include "lockstep/coord/key_rights.h"

namespace lockstep::coord {
namespace {

// Past the keys that are hidden from the caller, which all lie together.
void SkipHidden(const KeyTable::Keys& keys, const Caller& caller,
                KeyTable::Keys::const_iterator& it) {
  if (it == keys.end() || SeesHidden(caller) || !IsHidden(it->first)) return;
  it = keys.lower_bound(kHiddenKeysEnd);
}

}  // namespace

ErrorPtr ReadDirectory(const KeyTable& table, const CoordinatorOptions& options,
                       const ListKeys& request, KeysListed& listed) {
  const bool native = request.caller.native();
  const KeyName directory(request.directory);
  // To native callers the empty directory is everything; to stock ones it is a key.
  const bool all = native && directory.empty();
  if (!all) {
    if (ErrorPtr error = CheckKey(options, request.caller, request.directory)) return error;
  }
  const std::string prefix = all ? "" : absl::StrCat(directory.view(), "/");
  const KeyName after(request.after);
  const KeyTable::Keys& keys = table.keys();
  // The key without a name, which only stock callers can write, is behind no page.
  auto it = after.view() < prefix ? keys.lower_bound(prefix) : keys.upper_bound(after.view());
  listed.revision = table.revision();
  size_t bytes = 0;
  for (; it != keys.end() && absl::StartsWith(it->first, prefix); ++it) {
    // Who may read a part of what is hidden has named it: then the whole list is of that.
    if (all) SkipHidden(keys, request.caller, it);
    if (it == keys.end()) break;
    // Counted before it is taken: the page ends before the entry that is too much.
    bytes += it->first.size() + it->second->value.size();
    const bool long_page = native && listed.entries.size() == options.page_entries_max;
    // A page of a native caller has one entry at least, however large: else it would never end.
    const bool full = native ? bytes > options.page_bytes_max && !listed.entries.empty()
                             : bytes > options.list_bytes_max;
    if (request.limit > 0 && (full || long_page || listed.entries.size() == request.limit)) {
      listed.more = true;
      return nullptr;
    }
    // Without pages the caller must not take a part for the whole, so it is refused.
    if (long_page) {
      return OverLimit(
          absl::StrCat("what is below ", QuotedKey(request.directory), " (read it in pages)"),
          "page_entries_max", options.page_entries_max);
    }
    if (full) {
      const std::string what = absl::StrCat("what is below ", QuotedKey(request.directory));
      return native ? OverLimit(absl::StrCat(what, ", of which ", listed.entries.size(),
                                             " keys fit, (read it in pages)"),
                                "page_bytes_max", options.page_bytes_max)
                    : OverLimit(what, "list_bytes_max", options.list_bytes_max);
    }
    listed.entries.push_back(EntryOf(it->first, it->second));
  }
  return nullptr;
}

ErrorPtr ReadSnapshot(const KeyTable& table, const CoordinatorOptions& options,
                      const WatchKeys& request, KeysChanged& all) {
  const KeyName directory(request.key);
  const KeyTable::Keys& keys = table.keys();
  all.revision = table.revision();
  all.snapshot = true;
  size_t bytes = 0;
  auto take = [&](const KeyTable::Keys::value_type& entry) {
    bytes += entry.first.size() + entry.second->value.size();
    all.changes.push_back(EntryOf(entry.first, entry.second));
  };
  // The key itself, which is not below itself.
  if (auto self = keys.find(directory.view()); self != keys.end()) take(*self);
  const std::string prefix = directory.empty() ? "" : absl::StrCat(directory.view(), "/");
  // The key without a name was taken above already.
  auto it = directory.empty() ? keys.upper_bound("") : keys.lower_bound(prefix);
  for (; it != keys.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (directory.empty()) SkipHidden(keys, request.caller, it);
    if (it == keys.end()) break;
    // Taken before it is checked: one value alone may exceed page_bytes_max.
    take(*it);
    const bool many = all.changes.size() > options.page_entries_max;
    const bool full = bytes > options.page_bytes_max && all.changes.size() > 1;
    if (!many && !full) continue;
    return OverLimit(absl::StrCat("the first answer of a watch of ", QuotedKey(request.key),
                                  " (watch a smaller part, or read it in pages)"),
                     many ? "page_entries_max" : "page_bytes_max",
                     many ? options.page_entries_max : options.page_bytes_max);
  }
  return nullptr;
}

}  // namespace lockstep::coord
