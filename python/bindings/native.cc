// lockstep._native: the client for Python, without comfort. What people use is in lockstep/*.py.
//
// Each call that waits takes its time-out in seconds (None: no limit) and, last, a ticket: without
// one it waits, without the GIL; with one it returns at once what cancels it, and
// `take_completed` gives the result.
#include <nanobind/nanobind.h>

#include "calls.h"
#include "errors.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/openssl.h"
#include "member.h"

NB_MODULE(_native, module) {
  // At the end of the interpreter whatever globals hold is still there, and is no mistake.
  nanobind::set_leak_warnings(false);
  // The OpenSSL that the interpreter has loaded: `lockstep._address` sees to that.
  lockstep::tls::InstallSecureCalls(&lockstep::tls::LoadedOpenSsl);
  lockstep::python::RegisterErrors();
  lockstep::python::BindCalls(module);
  lockstep::python::BindWatches(module);
  lockstep::python::BindKeys(module);
  lockstep::python::BindMember(module);
  lockstep::python::BindSession(module);
  lockstep::python::BindPreemption(module);
  lockstep::python::BindNotices(module);
  lockstep::python::BindTensors(module);
  lockstep::python::BindRendezvous(module);
  lockstep::python::BindDataDefinition(module);
  lockstep::python::BindDataLocal(module);
  lockstep::python::BindDataReader(module);
}
