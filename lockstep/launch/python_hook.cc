#include "lockstep/launch/python_hook.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace lockstep::launch {
namespace {

constexpr char kHook[] = R"hook(# Written by Lockstep, for processes of one launcher.
import os
import sys

_HERE = os.path.dirname(__file__)


def _move_up(descriptor):
    """Out of the way: the program's own descriptors keep their numbers."""
    for number in range(700, 764):
        try:
            os.fstat(number)
        except OSError:
            try:
                os.dup2(descriptor, number, inheritable=False)
            except OSError:
                break  # beyond the limit
            os.close(descriptor)
            return number
    return descriptor


def _answer_questions():
    """Lets `lockstep stacks` ask where this process is. A thread waits for the questions, so that
    no signal interrupts what the program does."""
    import _signal
    import _thread
    import faulthandler

    path = os.path.join(_HERE, str(os.getpid()))
    os.mkfifo(path + ".ask", 0o600)
    flags = os.O_CLOEXEC
    # Open for writing too: a pipe without a writer would always be readable.
    questions = _move_up(os.open(path + ".ask", os.O_RDWR | flags))
    answers = _move_up(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | flags, 0o600))
    faulthandler.register(@SIGNAL@, file=answers, all_threads=True)
    main = _thread.get_ident()
    born = [os.fstat(questions), os.fstat(answers)]
    runs = []  # whether the thread does
    ended = _thread.allocate_lock()

    def are_ours(read=os.fstat, born=born):
        try:
            now = [read(questions), read(answers)]
        except OSError:
            return False  # the program has closed them all
        return all((a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) for a, b in zip(born, now))

    def answer(read=os.read, write=os.write, dump=faulthandler.dump_traceback,
               me=_thread.get_ident):
        try:
            while are_ours():
                asked = read(questions, 512).split(b"\n")[-2]
                if asked == b"end" or not are_ours():
                    break
                write(answers, b"\nasked %s main 0x%016x me 0x%016x\n" % (asked, main, me()))
                dump(file=answers, all_threads=True)
                write(answers, b"\ntold %s\n" % asked)
        except (OSError, IndexError):
            pass
        finally:
            ended.release()

    def start():
        # A signal for the process is never this thread's.
        mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            ended.acquire()
            _thread.start_new_thread(answer, ())
            runs.append(True)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def before_fork():
        # Python warns of a fork beside threads, and of this one the program knows nothing.
        if runs:
            runs.clear()
            os.write(questions, b"end\n")
            if ended.acquire(timeout=1):
                ended.release()

    def after_fork():
        if not runs and not ended.locked() and are_ours():
            start()

    def in_child():
        if are_ours():
            os.close(questions)
            os.close(answers)

    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=in_child)
    start()


def _tell_of_exceptions():
    """Names an exception that nobody caught before exit handlers run, which may wait for others."""
    import _thread

    process = os.getpid()
    main = _thread.get_ident()
    first = sys.__excepthook__

    def is_last(frame):
        # Nothing of the program runs any more, but for a hook of its own.
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
        hook = getattr(sys.excepthook, "__func__", sys.excepthook)
        return frame is None or frame.f_code is getattr(hook, "__code__", None)

    def place(trace):
        found = ("", 0, "")
        while trace is not None:
            code = trace.tb_frame.f_code
            name = code.co_filename
            library = name.startswith("<") or any(
                part in name for part in ("/site-packages/", "/dist-packages/", "/lib/python3"))
            if not found[0] or not library:
                found = (name, trace.tb_lineno, code.co_name)
            trace = trace.tb_next
        return found

    def tell(kind, value, trace):
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", "__main__"):
            name = kind.__module__ + "." + name
        parts = [str(os.getpid()), name[:100], str(value)[:400]]
        parts += [str(part)[-150:] for part in place(trace)]
        line = "\t".join(" ".join(part.split()) for part in parts) + "\n"
        pipe = os.open(os.path.join(_HERE, "told"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, line.encode("utf-8", "replace"))
        finally:
            os.close(pipe)

    def hook(kind, value, trace):
        try:
            stays = sys.flags.interactive or sys.flags.inspect or hasattr(sys, "ps1")
            ours = os.getpid() == process and _thread.get_ident() == main
            if ours and not stays and not issubclass(kind, KeyboardInterrupt):
                if is_last(sys._getframe().f_back):
                    tell(kind, value, trace)
        except BaseException:
            pass  # what the program says of it counts
        first(kind, value, trace)

    # Both: programs compare the two, and call the second from hooks of their own.
    if sys.excepthook is first:
        sys.excepthook = hook
    sys.__excepthook__ = hook


def _import_the_next():
    import importlib.machinery
    import importlib.util

    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


# What a process of the job starts itself is its own affair.
if os.getppid() == @LAUNCHER@:
    for _begin in (_answer_questions, _tell_of_exceptions):
        try:
            _begin()
        except Exception:
            pass  # not told, then: a training does not fail for that
_import_the_next()
)hook";

}  // namespace

int StackSignal() { return SIGRTMAX - 6; }

std::string ExceptionPipePath(const std::string& folder) { return absl::StrCat(folder, "/told"); }
std::string QuestionPipePath(const std::string& folder, int64_t pid) {
  return absl::StrCat(folder, "/", pid, ".ask");
}
std::string AnswerPath(const std::string& folder, int64_t pid) {
  return absl::StrCat(folder, "/", pid);
}

absl::Status WritePythonHook(const std::string& folder, int64_t launcher) {
  std::ofstream file(absl::StrCat(folder, "/sitecustomize.py"));
  file << absl::StrReplaceAll(
      kHook, {{"@SIGNAL@", absl::StrCat(StackSignal())}, {"@LAUNCHER@", absl::StrCat(launcher)}});
  file.close();
  // Python would keep what it compiled in a folder of this name.
  std::ofstream(absl::StrCat(folder, "/__pycache__"));
  if (file && ::mkfifo(ExceptionPipePath(folder).c_str(), 0600) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write in ", folder, ": ", strerror(errno)));
}

void AddPythonHook(const std::string& folder, RunEnvironment& environment) {
  Environment& place =
      environment.extra.contains("PYTHONPATH") ? environment.extra : environment.inherited;
  std::string& path = place["PYTHONPATH"];
  path = path.empty() ? folder : absl::StrCat(folder, ":", path);
}

std::optional<RaisedException> ParseException(std::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(line), '\t');
  RaisedException raised;
  int32_t number = 0;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[0], &raised.pid) || raised.pid <= 0 ||
      parts[1].empty() || !absl::SimpleAtoi(parts[4], &number)) {
    return std::nullopt;
  }
  raised.text = parts[1];
  if (!parts[2].empty()) absl::StrAppend(&raised.text, ": ", parts[2]);
  if (raised.text.size() > kExceptionTextBytesMax) {
    raised.text.resize(kExceptionTextBytesMax - 3);
    raised.text += "...";
  }
  if (!parts[3].empty()) {
    absl::StrAppend(&raised.text, ", ", parts[3].substr(parts[3].rfind('/') + 1), ":", number);
    if (!parts[5].empty() && parts[5].front() != '<')
      absl::StrAppend(&raised.text, " in ", parts[5]);
  }
  for (char& c : raised.text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return raised;
}

}  // namespace lockstep::launch
