#include "lockstep/launch/stacks.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {
namespace {

using nlohmann::json;

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Somebody else's code, which tells what a program waits for; the user's own tells where.
bool IsLibrary(const StackFrame& frame) {
  return frame.file.empty() || frame.file.front() == '<' ||
         Contains(frame.file, "/site-packages/") || Contains(frame.file, "/dist-packages/") ||
         Contains(frame.file, "/lib/python3");
}

// Frames that only pass a call on.
bool PassesOn(const StackFrame& frame) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "wrapper",          "inner",       "_fn", "_wrapped_call_impl", "_call_impl", "__call__",
      "decorate_context", "wrapped_func"};
  return std::find(kNames.begin(), kNames.end(), frame.function) != kNames.end();
}

std::string BaseName(const std::string& file) { return file.substr(file.rfind('/') + 1); }

std::string LineOf(const StackFrame& frame) {
  return absl::StrCat(BaseName(frame.file), ":", frame.line);
}

StackPlace Doing(bool runs, const std::string& function, std::string where) {
  return runs ? StackPlace{absl::StrCat("run ", function), absl::StrCat("runs ", function),
                           std::move(where), function}
              : StackPlace{absl::StrCat("wait in ", function), absl::StrCat("waits in ", function),
                           std::move(where), function};
}

json ToJson(const ProcessStacks& process) {
  json threads = json::array();
  for (const ThreadStack& thread : process.threads) {
    json frames = json::array();
    for (const StackFrame& frame : thread.frames) {
      frames.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
    }
    threads.push_back({{"name", thread.name}, {"frames", std::move(frames)}});
  }
  return {{"member", process.member},      {"name", process.name},
          {"host", process.host},          {"pid", process.pid},
          {"state", process.state},        {"waits_in", process.waits_in},
          {"source", process.source},      {"note", process.note},
          {"threads", std::move(threads)}, {"last_lines", process.last_lines},
          {"still_us", process.still_us}};
}

ProcessStacks FromJson(const json& said) {
  ProcessStacks process = {.member = said.at("member").get<int32_t>(),
                           .name = said.at("name").get<std::string>(),
                           .host = said.at("host").get<std::string>(),
                           .pid = said.at("pid").get<int64_t>(),
                           .state = said.at("state").get<std::string>(),
                           .waits_in = said.at("waits_in").get<std::string>(),
                           .source = said.at("source").get<std::string>(),
                           .note = said.at("note").get<std::string>()};
  process.last_lines = said.at("last_lines").get<std::vector<std::string>>();
  process.still_us = said.value("still_us", int64_t{-1});  // older launchers do not tell
  for (const json& thread : said.at("threads")) {
    ThreadStack stack = {.name = thread.at("name").get<std::string>()};
    for (const json& frame : thread.at("frames")) {
      stack.frames.push_back({.function = frame.at("function").get<std::string>(),
                              .file = frame.at("file").get<std::string>(),
                              .line = frame.at("line").get<int32_t>()});
    }
    process.threads.push_back(std::move(stack));
  }
  return process;
}

std::string Named(const ProcessStacks& process) {
  return absl::StrFormat("%s (pid %d on %s)", process.name, process.pid, process.host);
}

}  // namespace

std::string EncodeStacks(const std::vector<ProcessStacks>& processes) {
  json all = json::array();
  for (const ProcessStacks& process : processes) all.push_back(ToJson(process));
  // What a process calls its functions and files may be any bytes.
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::vector<ProcessStacks>> DecodeStacks(const std::string& text) {
  std::vector<ProcessStacks> processes;
  try {
    for (const json& one : json::parse(text)) processes.push_back(FromJson(one));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no stacks of processes: ", error.what()));
  }
  return processes;
}

StackPlace PlaceOf(const ProcessStacks& process) {
  if (process.state == "stopped") return {"are stopped", "is stopped", ""};
  if (process.state == "ended") return {"have ended", "has ended", ""};
  const bool runs = process.state == "running";
  const std::vector<StackFrame> none;
  const std::vector<StackFrame>& frames =
      process.threads.empty() ? none : process.threads.front().frames;
  if (frames.empty()) {
    if (runs) return {"run", "runs", ""};
    return Doing(false, process.waits_in.empty() ? "an unknown place" : process.waits_in, "");
  }
  auto own = std::find_if_not(frames.begin(), frames.end(), IsLibrary);
  if (own == frames.end()) {
    return Doing(runs, frames.front().function,
                 frames.front().file.empty() ? "" : LineOf(frames.front()));
  }
  // What the user's line called: the outermost function of the libraries that is more than a way
  // to call another.
  auto called = own;
  while (called != frames.begin()) {
    --called;
    if (!PassesOn(*called)) break;
  }
  return Doing(runs, called->function, LineOf(*own));
}

bool WaitsForOthers(const ProcessStacks& process) {
  // They also run in such libraries only as long as they wait, as NCCL's and MPI's do.
  static constexpr std::array<std::string_view, 5> kAlways = {"/torch/distributed/", "/mpi4py/",
                                                              "/horovod/", "/lockstep/",
                                                              "/jax/experimental/multihost_utils"};
  // In these they wait for what others are to bring, when they do not run.
  static constexpr std::array<std::string_view, 2> kAsleep = {"/torch/autograd/",
                                                              "/jax/_src/array.py"};
  if (process.threads.empty() || process.state == "stopped" || process.state == "ended")
    return false;
  const auto in = [&](std::string_view library) {
    const std::vector<StackFrame>& frames = process.threads.front().frames;
    return std::any_of(frames.begin(), frames.end(), [&](const StackFrame& frame) {
      return IsLibrary(frame) && Contains(frame.file, library);
    });
  };
  const bool sleeps = process.state != "running";
  return std::any_of(kAlways.begin(), kAlways.end(), in) ||
         (sleeps && std::any_of(kAsleep.begin(), kAsleep.end(), in));
}

std::vector<StackGroup> Group(const std::vector<ProcessStacks>& processes) {
  std::map<StackPlace, StackGroup> by_place;
  for (const ProcessStacks& process : processes) {
    const StackPlace place = PlaceOf(process);
    StackGroup& group = by_place[place];
    group.place = place;
    group.processes.push_back(&process);
  }
  std::vector<StackGroup> groups;
  for (auto& [place, group] : by_place) {
    std::sort(group.processes.begin(), group.processes.end(),
              [](const auto* a, const auto* b) { return a->member < b->member; });
    groups.push_back(std::move(group));
  }
  std::sort(groups.begin(), groups.end(), [](const StackGroup& a, const StackGroup& b) {
    if (a.processes.size() != b.processes.size()) return a.processes.size() > b.processes.size();
    return a.processes.front()->member < b.processes.front()->member;
  });
  return groups;
}

std::string StacksSentence(const std::vector<ProcessStacks>& processes) {
  if (processes.empty()) return "no process of this job belongs to a launcher that answered";
  std::vector<std::string> parts;
  for (const StackGroup& group : Group(processes)) {
    const std::string where =
        group.place.where.empty() ? "" : absl::StrCat(", ", group.place.where);
    if (group.processes.size() == 1) {
      parts.push_back(absl::StrCat(Named(*group.processes.front()), " ", group.place.what1, where));
    } else {
      parts.push_back(absl::StrCat(group.processes.size(), " of ", processes.size(), " ",
                                   group.place.what, where));
    }
  }
  return absl::StrJoin(parts, "; ");
}

std::string StacksText(const std::vector<ProcessStacks>& processes) {
  std::string text = absl::StrCat(StacksSentence(processes), "\n");
  for (const StackGroup& group : Group(processes)) {
    std::vector<std::string> names;
    for (const ProcessStacks* process : group.processes) names.push_back(Named(*process));
    absl::StrAppend(&text, "\n", absl::StrJoin(names, ", "), "\n");
    const ProcessStacks& first = *group.processes.front();
    absl::StrAppend(&text, "  ", first.state,
                    first.waits_in.empty() ? "" : absl::StrCat(" in ", first.waits_in), "; by ",
                    first.source, first.note.empty() ? "" : absl::StrCat("; ", first.note), "\n");
    for (const ThreadStack& thread : first.threads) {
      absl::StrAppend(&text, "  thread ", thread.name, "\n");
      for (const StackFrame& frame : thread.frames) {
        absl::StrAppend(
            &text, "    ", frame.function,
            frame.file.empty() ? "" : absl::StrCat(" (", frame.file, ":", frame.line, ")"), "\n");
      }
    }
  }
  return text;
}

}  // namespace lockstep::launch
