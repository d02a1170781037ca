#include "calls.h"

#include <nanobind/stl/vector.h>

#include <chrono>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/mutex.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

// How long the end of the interpreter waits for calls that were cancelled: `exit_wait_max`.
constexpr absl::Duration kExitWaitMax = absl::Seconds(5);

struct Completed {
  Ticket ticket = 0;
  MakeObject make;
};

struct State {
  Mutex mutex;
  CondVar changed;
  std::deque<Completed> completed ABSL_GUARDED_BY(mutex);  // for the dispatcher
  bool stopped ABSL_GUARDED_BY(mutex) = false;             // the dispatcher is to end
};

// Never destroyed: the client's threads may post until the process has ended. A child has one of
// its own, since its parent's may have been locked by a thread that the child has not got.
std::atomic<State*> state = new State;

// Calls without the GIL, changed and read with it.
int calls_waiting = 0;
// Grows when all waits are to end; what began before it gets CANCELLED.
std::atomic<uint64_t> cancel_round = 0;
// The main thread has ended: other threads' calls are refused.
std::atomic<bool> main_thread_ended = false;
// atexit: all calls are refused.
std::atomic<bool> closed = false;
unsigned long main_thread = 0;

absl::Status Ending() {
  return absl::CancelledError(
      "the Python interpreter is ending, which cancels all waits; leave the job, or join the "
      "threads that wait, before the main thread ends");
}

void FindMainThread() {
  main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
}

// In a child: nothing of the parent's calls and threads is here.
void AfterFork() {
  state.store(new State);
  calls_waiting = 0;
  cancel_round.store(0);
  FindMainThread();
}

nb::list TakeCompleted() {
  std::deque<Completed> taken;
  {
    const nb::gil_scoped_release release;
    State& here = *state.load();
    const MutexLock lock(here.mutex);
    while (!here.stopped && here.completed.empty()) here.changed.Wait(here.mutex);
    taken.swap(here.completed);
  }
  nb::list result;
  for (Completed& one : taken) {
    nb::object value = nb::none();
    nb::object error = nb::none();
    try {
      value = one.make();
    } catch (const StatusError& failed) {
      error = ErrorObject(failed.status);
    } catch (const nb::python_error& failed) {
      error = nb::borrow(failed.value());
    }
    result.append(nb::make_tuple(one.ticket, value, error));
  }
  return result;
}

void StopDispatcher() {
  State& here = *state.load();
  const MutexLock lock(here.mutex);
  here.stopped = true;
  here.changed.NotifyAll();
}

// From now on waits are cancelled, new ones refused: with `everywhere` those of all threads,
// otherwise those of all but the main thread. Returns when no call is on its way any more.
void CancelWaits(bool everywhere) {
  (everywhere ? closed : main_thread_ended).store(true);
  cancel_round.fetch_add(1);
  if (!everywhere) return;
  const auto give_up = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kExitWaitMax);
  while (calls_waiting > 0 && std::chrono::steady_clock::now() < give_up) {
    const nb::gil_scoped_release release;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace

void Post(Ticket ticket, MakeObject make) {
  State& here = *state.load();
  const MutexLock lock(here.mutex);
  if (here.stopped) return;
  here.completed.push_back({ticket, std::move(make)});
  here.changed.NotifyOne();
}

void ThrowIfEnding() {
  const bool on_main_thread = PyThread_get_thread_ident() == main_thread;
  if (closed.load() || (main_thread_ended.load() && !on_main_thread)) throw StatusError{Ending()};
}

WithoutGil::WithoutGil(const std::atomic<bool>* cancelled)
    : cancelled_(cancelled),
      on_main_thread_(PyThread_get_thread_ident() == main_thread),
      round_(cancel_round.load()) {
  ThrowIfEnding();
  ++calls_waiting;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(state_);
  if (calls_waiting > 0) --calls_waiting;
}

Interrupted WithoutGil::LooksForEnd() const {
  return [cancelled = cancelled_, on_main_thread = on_main_thread_, round = round_] {
    if (cancelled != nullptr && cancelled->load()) {
      return absl::CancelledError("closed by this process while it waited");
    }
    if (on_main_thread) {
      const nb::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) return absl::CancelledError("interrupted by a signal");
      return closed.load() ? Ending() : absl::OkStatus();
    }
    return cancel_round.load() != round ? Ending() : absl::OkStatus();
  };
}

void BindCalls(nb::module_& module) {
  FindMainThread();
  nb::class_<Pending>(module, "Pending").def("cancel", &Pending::Cancel);
  module.def(
      "take_completed", &TakeCompleted,
      "Waits for results of asynchronous calls: [(ticket, value, error)]; empty at the end.");
  module.def("stop_dispatcher", &StopDispatcher);
  module.def("cancel_waits", &CancelWaits, nb::arg("everywhere"));
  module.def("after_fork", &AfterFork);
}

}  // namespace lockstep::python
