#include "convert.h"

#include "errors.h"

namespace lockstep::python {

namespace nb = nanobind;

nb::object ToText(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

nb::object ToObject(const KeyEntry& entry) {
  return nb::make_tuple(ToText(entry.key), ToBytes(entry.value), entry.revision);
}

nb::object ToObject(const std::optional<KeyEntry>& entry) {
  return entry ? ToObject(*entry) : nb::object(nb::none());
}

nb::object ToObject(const std::vector<KeyEntry>& entries) {
  nb::list list;
  for (const KeyEntry& entry : entries) list.append(ToObject(entry));
  return list;
}

nb::object ToObject(const KeyChanges& changes) {
  nb::list list;
  for (const KeyChange& change : changes.changes) {
    const nb::object value =
        change.value ? nb::object(ToBytes(*change.value)) : nb::object(nb::none());
    list.append(nb::make_tuple(ToText(change.key), value, change.revision));
  }
  return nb::make_tuple(list, changes.revision, changes.snapshot);
}

nb::object ToObject(const JobChange& change) {
  nb::list members;
  for (const MemberInfo& member : change.members) {
    members.append(nb::make_tuple(member.member, ToText(member.name), ToText(member.condition),
                                  ToText(member.why), ToText(member.host), member.pid,
                                  ToText(member.peer)));
  }
  nb::list errors;
  for (const JobError& error : change.errors) {
    errors.append(nb::make_tuple(ErrorObject(error.status), ToText(error.origin), error.consequence,
                                 error.attempt));
  }
  return nb::make_tuple(change.version, change.snapshot, change.attempt, ToText(change.state),
                        members, errors);
}

}  // namespace lockstep::python
