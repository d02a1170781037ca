#include "lockstep/client/keys.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "calls.h"
#include "convert.h"
#include "handles.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

// As lockstep.SwapResult takes it: (swapped, entry or None).
nb::object SwapObject(const SwapResult& result) {
  return nb::make_tuple(result.swapped, ToObject(result.entry));
}

SetOptions ToSetOptions(bool overwrite, Seconds ttl, bool with_member, Seconds timeout) {
  return {.overwrite = overwrite,
          .ttl = ToDuration(ttl),
          .with_member = with_member,
          .timeout = ToDuration(timeout)};
}

nb::object TryGet(const KeysHandle& self, std::string key, Seconds timeout,
                  std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<std::optional<KeyEntry>>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().TryGet(std::move(key), std::move(options));
      },
      [&](auto done) {
        return self.keys().TryGetAsync(std::move(key), std::move(options), std::move(done));
      },
      [](const std::optional<KeyEntry>& entry) { return ToObject(entry); });
}

nb::object Get(const KeysHandle& self, std::string key, Seconds timeout,
               std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<KeyEntry>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Get(std::move(key), std::move(options));
      },
      [&](auto done) {
        return self.keys().GetAsync(std::move(key), std::move(options), std::move(done));
      },
      [](const KeyEntry& entry) { return ToObject(entry); });
}

nb::object Wait(const KeysHandle& self, std::string key, Seconds timeout,
                std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<KeyEntry>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Wait(std::move(key), std::move(options));
      },
      [&](auto done) {
        return self.keys().WaitAsync(std::move(key), std::move(options), std::move(done));
      },
      [](const KeyEntry& entry) { return ToObject(entry); });
}

nb::object WaitMany(const KeysHandle& self, std::vector<std::string> keys, Seconds timeout,
                    std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<std::vector<KeyEntry>>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().WaitAll(std::move(keys), std::move(options));
      },
      [&](auto done) {
        return self.keys().WaitAllAsync(std::move(keys), std::move(options), std::move(done));
      },
      [](const std::vector<KeyEntry>& entries) { return ToObject(entries); });
}

nb::object Set(const KeysHandle& self, std::string key, const nb::bytes& value, bool overwrite,
               Seconds ttl, bool with_member, Seconds timeout, std::optional<Ticket> ticket) {
  SetOptions options = ToSetOptions(overwrite, ttl, with_member, timeout);
  std::string bytes = FromBytes(value);
  return Call<int64_t>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Set(std::move(key), std::move(bytes), std::move(options));
      },
      [&](auto done) {
        return self.keys().SetAsync(std::move(key), std::move(bytes), std::move(options),
                                    std::move(done));
      },
      [](int64_t revision) { return nb::cast(revision); });
}

nb::object CompareAndSet(const KeysHandle& self, std::string key,
                         const std::optional<nb::bytes>& expected, std::optional<int64_t> revision,
                         const nb::bytes& value, Seconds ttl, bool with_member, Seconds timeout,
                         std::optional<Ticket> ticket) {
  SetOptions options = ToSetOptions(true, ttl, with_member, timeout);
  std::string bytes = FromBytes(value);
  KeyMust must = expected   ? KeyMust::HaveValue(FromBytes(*expected))
                 : revision ? KeyMust::BeAtRevision(*revision)
                            : KeyMust::NotExist();
  return Call<SwapResult>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().CompareAndSet(std::move(key), std::move(must), std::move(bytes),
                                         std::move(options));
      },
      [&](auto done) {
        return self.keys().CompareAndSetAsync(std::move(key), std::move(must), std::move(bytes),
                                              std::move(options), std::move(done));
      },
      [](const SwapResult& result) { return SwapObject(result); });
}

nb::object Increment(const KeysHandle& self, std::string key, int64_t by, Seconds timeout,
                     std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<int64_t>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Increment(std::move(key), by, std::move(options));
      },
      [&](auto done) {
        return self.keys().IncrementAsync(std::move(key), by, std::move(options), std::move(done));
      },
      [](int64_t sum) { return nb::cast(sum); });
}

nb::object Max(const KeysHandle& self, std::string key, int64_t value, Seconds timeout,
               std::optional<Ticket> ticket) {
  CallOptions options{.timeout = ToDuration(timeout)};
  return Call<int64_t>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Max(std::move(key), value, std::move(options));
      },
      [&](auto done) {
        return self.keys().MaxAsync(std::move(key), value, std::move(options), std::move(done));
      },
      [](int64_t greatest) { return nb::cast(greatest); });
}

nb::object Delete(const KeysHandle& self, std::string key, bool below,
                  std::optional<int64_t> revision, Seconds timeout, std::optional<Ticket> ticket) {
  DeleteOptions options{.below = below, .revision = revision, .timeout = ToDuration(timeout)};
  return Call<int64_t>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().Delete(std::move(key), std::move(options));
      },
      [&](auto done) {
        return self.keys().DeleteAsync(std::move(key), std::move(options), std::move(done));
      },
      [](int64_t deleted) { return nb::cast(deleted); });
}

nb::object List(const KeysHandle& self, std::string directory, Seconds timeout,
                std::optional<Ticket> ticket) {
  ListOptions options{.timeout = ToDuration(timeout)};
  return Call<std::vector<KeyEntry>>(
      ticket, nullptr,
      [&](Interrupted interrupted) {
        options.interrupted = std::move(interrupted);
        return self.keys().List(std::move(directory), std::move(options));
      },
      [&](auto done) {
        return self.keys().ListAsync(std::move(directory), std::move(options), std::move(done));
      },
      [](const std::vector<KeyEntry>& entries) { return ToObject(entries); });
}

KeyWatchHandle* Watch(const KeysHandle& self, std::string key, int64_t after,
                      std::optional<Ticket> ticket) {
  ThrowIfEnding();
  if (!ticket) return new KeyWatchHandle(self.keys().Watch(std::move(key), after));
  return new KeyWatchHandle(self.keys().Watch(
      std::move(key),
      [ticket = *ticket](absl::StatusOr<KeyChanges> changes) {
        Post(ticket, [changes = std::move(changes)]() mutable {
          return ToObject(ValueOrThrow(std::move(changes)));
        });
      },
      after));
}

}  // namespace

void BindKeys(nb::module_& module) {
  const auto no_ticket = nb::arg("ticket").none() = nb::none();
  const auto timeout = nb::arg("timeout").none();
  nb::class_<KeysHandle>(module, "Keys")
      .def("get", &Get, nb::arg("key"), timeout, no_ticket)
      .def("try_get", &TryGet, nb::arg("key"), timeout, no_ticket)
      .def("wait", &Wait, nb::arg("key"), timeout, no_ticket)
      .def("wait_many", &WaitMany, nb::arg("keys"), timeout, no_ticket)
      .def("set", &Set, nb::arg("key"), nb::arg("value"), nb::arg("overwrite"),
           nb::arg("ttl").none(), nb::arg("with_member"), timeout, no_ticket)
      .def("compare_and_set", &CompareAndSet, nb::arg("key"), nb::arg("expected").none(),
           nb::arg("revision").none(), nb::arg("value"), nb::arg("ttl").none(),
           nb::arg("with_member"), timeout, no_ticket)
      .def("increment", &Increment, nb::arg("key"), nb::arg("by"), timeout, no_ticket)
      .def("max", &Max, nb::arg("key"), nb::arg("value"), timeout, no_ticket)
      .def("delete", &Delete, nb::arg("key"), nb::arg("below"), nb::arg("revision").none(), timeout,
           no_ticket)
      .def("list", &List, nb::arg("directory"), timeout, no_ticket)
      .def("watch", &Watch, nb::arg("key"), nb::arg("after"), no_ticket,
           nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
