// `lockstep kv get|set|list|watch|delete JOB ...`: the keys of a job.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/job_session.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/json.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::cli {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// Keys that are asked for at once.
constexpr int64_t kPage = 1000;

// Opens the job, asks once and hands the answer on.
template <class RequestMessage, class Function>
int Ask(ServerCommand& self, const std::string& job, const RequestMessage& request,
        const Function& print) {
  auto client = OpenJob(self, job);
  if (!client.ok()) return self.Fail(client.status());
  const auto reply = (*client)->Call(request, self.timeout());
  if (!reply.ok()) return self.Fail(reply.status());
  print(*reply);
  return kExitOk;
}

void PrintEntry(ServerCommand& self, const Entry& entry) {
  if (self.json()) {
    self.out() << ToJson(entry).dump() << "\n";
  } else {
    self.out() << entry.value.data << "\n";
  }
}

template <class Reply>
void PrintReply(ServerCommand& self, const Reply& reply, const std::string& text) {
  self.out() << (self.json() ? ToJson(reply).dump() : text) << "\n";
}

int List(ServerCommand& self, const std::string& job, const std::string& directory) {
  auto client = OpenJob(self, job);
  if (!client.ok()) return self.Fail(client.status());
  ListKeysReply all;
  ListKeys request{.directory = directory, .limit = kPage};
  for (;;) {
    auto page = (*client)->Call(request, self.timeout());
    if (!page.ok()) return self.Fail(page.status());
    all.revision = page->revision;
    std::move(page->entries.begin(), page->entries.end(), std::back_inserter(all.entries));
    if (!page->more || page->entries.empty()) break;
    request.after = all.entries.back().key;
  }
  self.out() << (self.json() ? observe::KeysJson(all) : observe::KeysTable(all));
  return kExitOk;
}

void PrintChange(ServerCommand& self, const KeyChange& change) {
  if (self.json()) {
    self.out() << ToJson(change).dump() << "\n";
    return;
  }
  self.out() << absl::StrCat(
      change.revision, change.value ? "  set  " : "  deleted  ", observe::CleanText(change.key),
      change.value ? "  " + observe::CleanText(change.value->data) : "", "\n");
}

// Until it is interrupted or the server goes for good.
int Watch(ServerCommand& self, const std::string& job, const std::string& key) {
  Waiter waiter(self, job);
  WatchKeys request{.key = key};
  std::set<std::string> there;
  for (;;) {
    const auto reply = waiter.Ask(request, absl::InfiniteDuration());
    if (!reply.ok()) return self.Fail(reply.status());
    if (reply->snapshot) {
      // All there is: another attempt of the job has begun, the server has lost its state, or too
      // much has changed. So what is not in it is gone.
      std::set<std::string> gone = std::exchange(there, {});
      for (const KeyChange& change : reply->changes) gone.erase(change.key);
      for (const std::string& name : gone) {
        PrintChange(self, {.key = name, .revision = reply->revision});
      }
    }
    for (const KeyChange& change : reply->changes) {
      PrintChange(self, change);
      change.value ? static_cast<void>(there.insert(change.key))
                   : static_cast<void>(there.erase(change.key));
    }
    self.out().flush();
    if (!self.out().good()) return kExitOk;  // nobody follows any more; `main` says why
    request.after = reply->revision;
  }
}

struct KeyArguments {
  std::string job;
  std::string key;
  std::string value;
  std::string wait;
  std::string ttl;
  bool new_only = false;
  bool below = false;
};

int Get(ServerCommand& self, const KeyArguments& given) {
  if (given.wait.empty()) {
    return Ask(self, given.job, GetKey{.key = given.key},
               [&](const GetKeyReply& reply) { PrintEntry(self, reply.entry); });
  }
  const auto wait = ParseDuration("--wait", given.wait);
  if (!wait.ok()) {
    self.Say(std::string(wait.status().message()));
    return kExitUsage;
  }
  Waiter waiter(self, given.job);
  const auto reply = waiter.Ask(GetKey{.key = given.key, .wait = true}, *wait);
  if (waiter.opened() && absl::IsDeadlineExceeded(reply.status())) {
    return self.Fail(absl::DeadlineExceededError(
        absl::StrCat("timed out: key '", given.key, "' of job '", given.job,
                     "' was not set within ", absl::FormatDuration(*wait))));
  }
  if (!reply.ok()) return self.Fail(reply.status());
  PrintEntry(self, reply->entry);
  return kExitOk;
}

int Set(ServerCommand& self, const KeyArguments& given) {
  SetKey request{.key = given.key, .value = {given.value}, .overwrite = !given.new_only};
  if (given.value == "-") {
    request.value.data.assign(std::istreambuf_iterator<char>(std::cin), {});
  }
  if (!given.ttl.empty()) {
    const auto ttl = ParseDuration("--ttl", given.ttl);
    if (!ttl.ok()) {
      self.Say(std::string(ttl.status().message()));
      return kExitUsage;
    }
    request.ttl_us = absl::ToInt64Microseconds(*ttl);
  }
  return Ask(self, given.job, request, [&](const SetKeyReply& reply) {
    PrintReply(self, reply, absl::StrCat("revision ", reply.revision));
  });
}

int Delete(ServerCommand& self, const KeyArguments& given) {
  return Ask(self, given.job, DeleteKey{.key = given.key, .below = given.below},
             [&](const DeleteKeyReply& reply) {
               PrintReply(self, reply, absl::StrCat(reply.deleted, " deleted"));
             });
}

}  // namespace

void AddKv(CLI::App& app, Invocation& invocation) {
  CLI::App* const kv = app.add_subcommand("kv", "Read and change the keys of a job");
  kv->require_subcommand(1);
  using Body = int (*)(ServerCommand&, const KeyArguments&);
  const auto add = [&](const std::string& name, const std::string& help, Body body) {
    CLI::App* const command = kv->add_subcommand(name, help);
    auto given = std::make_shared<KeyArguments>();
    command->add_option("job", given->job, "Job")->type_name("JOB")->required();
    AddServerCommand(*command, invocation, "kv " + name, [given, body](ServerCommand& self) {
      if (!IsUtf8(given->key)) {
        self.Say(absl::StrCat("KEY '", observe::CleanText(ToUtf8(given->key)),
                              "' is not UTF-8. Keys must be text; a value from standard input (-) "
                              "may be any bytes"));
        return static_cast<int>(kExitUsage);
      }
      return body(self, *given);
    });
    return std::pair(command, given);
  };
  const auto key = [](const auto& added, bool required) {
    CLI::Option* const option = added.first->add_option("key", added.second->key, "Key");
    option->type_name("KEY");
    if (required) option->required();
  };
  const auto get = add("get", "Print the value of a key", Get);
  key(get, true);
  get.first
      ->add_option("--wait", get.second->wait, "Wait up to this long for the key to have a value")
      ->type_name("DURATION");
  const auto set = add("set", "Set the value of a key", Set);
  key(set, true);
  set.first->add_option("value", set.second->value, "Value. -: read it from standard input")
      ->type_name("VALUE")
      ->required();
  set.first->add_flag("--new", set.second->new_only, "Fail if the key has a value");
  set.first->add_option("--ttl", set.second->ttl, "Delete the key after this time")
      ->type_name("DURATION");
  const auto list = add("list", "List keys and the beginning of their values",
                        [](ServerCommand& self, const KeyArguments& given) {
                          return List(self, given.job, given.key);
                        });
  list.first->add_option("directory", list.second->key, "List only keys below this one")
      ->type_name("KEY");
  const auto watch = add("watch", "Print the current keys, then each change",
                         [](ServerCommand& self, const KeyArguments& given) {
                           return Watch(self, given.job, given.key);
                         });
  watch.first->add_option("key", watch.second->key, "Watch only this key and keys below it")
      ->type_name("KEY");
  const auto remove = add("delete", "Delete a key", Delete);
  key(remove, true);
  remove.first->add_flag("--below", remove.second->below, "Also delete all keys below it");
}

}  // namespace lockstep::cli
