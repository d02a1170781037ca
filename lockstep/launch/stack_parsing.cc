// Reads what tools print of a process's stacks.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "lockstep/launch/stacks.h"

namespace lockstep::launch {
namespace {

std::vector<std::string> LinesOf(std::string_view text) {
  return absl::StrSplit(std::string(text), '\n');
}

bool StartsWith(const std::string& line, std::string_view begin) {
  return line.compare(0, begin.size(), begin) == 0;
}

int32_t LineNumber(const std::string& text) {
  int32_t line = 0;
  return absl::SimpleAtoi(text, &line) ? line : 0;
}

void Add(std::vector<ThreadStack>& threads, StackFrame frame) {
  if (!threads.empty() && threads.back().frames.size() < kStackFramesMax) {
    threads.back().frames.push_back(std::move(frame));
  }
}

bool Begin(std::vector<ThreadStack>& threads, std::string name) {
  if (threads.size() >= kStackThreadsMax) return false;
  threads.push_back({.name = std::move(name)});
  return true;
}

void BringForward(std::vector<ThreadStack>& threads, size_t main) {
  if (main < threads.size()) {
    std::rotate(threads.begin(), threads.begin() + static_cast<ptrdiff_t>(main),
                threads.begin() + static_cast<ptrdiff_t>(main) + 1);
  }
}

//   File "/home/me/train.py", line 88 in step
std::optional<StackFrame> FaulthandlerFrame(const std::string& line) {
  static constexpr std::string_view kBegin = "  File \"";
  static constexpr std::string_view kLine = "\", line ";
  static constexpr std::string_view kIn = " in ";
  if (!StartsWith(line, kBegin)) return std::nullopt;
  const size_t number = line.rfind(kLine);
  if (number == std::string::npos) return std::nullopt;
  const size_t in = line.find(kIn, number + kLine.size());
  if (in == std::string::npos) return std::nullopt;
  return StackFrame{
      .function = line.substr(in + kIn.size()),
      .file = line.substr(kBegin.size(), number - kBegin.size()),
      .line = LineNumber(line.substr(number + kLine.size(), in - number - kLine.size()))};
}

//     step (/home/me/train.py:88)
std::optional<StackFrame> PySpyFrame(const std::string& line) {
  const size_t open = line.rfind(" (");
  if (!StartsWith(line, "    ") || open == std::string::npos || line.back() != ')') {
    return std::nullopt;
  }
  const std::string place = line.substr(open + 2, line.size() - open - 3);
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return StackFrame{.function = line.substr(4, open - 4)};
  return StackFrame{.function = line.substr(4, open - 4),
                    .file = place.substr(0, colon),
                    .line = LineNumber(place.substr(colon + 1))};
}

// #3  0x00007f in do_wait (arguments) at wait.c:12
std::optional<StackFrame> GdbFrame(const std::string& line) {
  if (!StartsWith(line, "#")) return std::nullopt;
  size_t at = line.find_first_not_of(' ', line.find_first_not_of("0123456789", 1));
  if (at == std::string::npos) return std::nullopt;
  if (line.compare(at, 2, "0x") == 0) {
    const size_t in = line.find(" in ", at);
    if (in == std::string::npos) return std::nullopt;
    at = in + 4;
  }
  StackFrame frame = {.function = line.substr(at, line.find(" (", at) - at)};
  if (const size_t place = line.rfind(" at "); place != std::string::npos && place > at) {
    const std::string where = line.substr(place + 4);
    const size_t colon = where.rfind(':');
    if (colon != std::string::npos) {
      frame.file = where.substr(0, colon);
      frame.line = LineNumber(where.substr(colon + 1));
    }
  }
  return frame;
}

}  // namespace

std::vector<ThreadStack> ParseFaulthandler(std::string_view text) {
  std::vector<ThreadStack> threads;
  std::optional<size_t> current;
  bool full = false;
  for (const std::string& line : LinesOf(text)) {
    const bool is_current = StartsWith(line, "Current thread ");
    if (is_current || StartsWith(line, "Thread ")) {
      const size_t name = line.find("0x");
      if (name == std::string::npos) continue;
      full = !Begin(threads, line.substr(name, line.find(' ', name) - name));
      if (is_current && !full) current = threads.size() - 1;
    } else if (auto frame = FaulthandlerFrame(line); frame && !full) {
      Add(threads, *std::move(frame));
    }
  }
  // The kernel gives a process's signal to its main thread. Without it: that is the oldest one,
  // which is told last.
  if (!threads.empty()) BringForward(threads, current.value_or(threads.size() - 1));
  return threads;
}

std::vector<ThreadStack> ParseThreadDump(std::string_view text) {
  const auto after = [&](std::string_view word) {
    const size_t at = text.find(word);
    if (at == std::string_view::npos || at > text.find('\n', 1)) return std::string();
    const std::string_view rest = text.substr(at + word.size());
    return std::string(rest.substr(0, rest.find_first_of(" \n")));
  };
  const std::string main = after(" main ");
  const std::string me = after(" me ");
  std::vector<ThreadStack> threads = ParseFaulthandler(text);
  std::erase_if(threads, [&](const ThreadStack& thread) { return thread.name == me; });
  for (size_t i = 0; i < threads.size(); ++i) {
    if (threads[i].name == main) BringForward(threads, i);
  }
  return threads;
}

std::vector<ThreadStack> ParsePySpy(std::string_view text) {
  std::vector<ThreadStack> threads;
  size_t main = 0;
  bool full = false;
  for (const std::string& line : LinesOf(text)) {
    if (StartsWith(line, "Thread ")) {
      const size_t open = line.find('"');
      const size_t close = line.rfind('"');
      std::string name = open != close ? line.substr(open + 1, close - open - 1) : line.substr(7);
      const bool is_main = name == "MainThread";
      full = !Begin(threads, std::move(name));
      if (is_main && !full) main = threads.size() - 1;
    } else if (auto frame = PySpyFrame(line); frame && !full) {
      Add(threads, *std::move(frame));
    }
  }
  BringForward(threads, main);
  return threads;
}

std::vector<ThreadStack> ParseGdb(std::string_view text) {
  std::vector<ThreadStack> threads;
  bool full = false;
  for (const std::string& line : LinesOf(text)) {
    if (StartsWith(line, "Thread ")) {
      const size_t open = line.find('(');
      const size_t close = line.rfind(')');
      full = !Begin(threads, open < close && close != std::string::npos
                                 ? line.substr(open + 1, close - open - 1)
                                 : line);
    } else if (auto frame = GdbFrame(line); frame && !full) {
      Add(threads, *std::move(frame));
    }
  }
  // gdb tells of the newest thread first.
  if (!threads.empty()) BringForward(threads, threads.size() - 1);
  return threads;
}

}  // namespace lockstep::launch
