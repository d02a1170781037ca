#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include "lockstep/runtime/address.h"
namespace nb = nanobind;
NB_MODULE(_native, m) {
  m.def("address", [](std::string a) { auto r = lockstep::runtime::ParseAddress(a); return r.ok() ? lockstep::runtime::ToString(*r) : std::string(r.status().message()); });
}
