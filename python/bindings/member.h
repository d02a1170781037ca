// The Python face of members and of what they hold: a thin skin, whose comfort is in lockstep/*.py.
#pragma once

#include <nanobind/nanobind.h>

namespace lockstep::python {

void BindDataDefinition(nanobind::module_& module);
void BindDataLocal(nanobind::module_& module);
void BindDataReader(nanobind::module_& module);
void BindNotices(nanobind::module_& module);
void BindPreemption(nanobind::module_& module);
void BindMember(nanobind::module_& module);
void BindKeys(nanobind::module_& module);
void BindRendezvous(nanobind::module_& module);
void BindSession(nanobind::module_& module);
void BindTensors(nanobind::module_& module);
void BindWatches(nanobind::module_& module);

}  // namespace lockstep::python
