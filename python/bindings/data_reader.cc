#include "lockstep/client/data_reader.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "calls.h"
#include "convert.h"
#include "data.h"
#include "errors.h"
#include "handles.h"
#include "member.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;

using ReaderHandle = Handle<DataReader>;

// An option by its name in python/lockstep/data/_read.py.
template <class T>
T Option(const nb::dict& options, const char* name) {
  return nb::cast<T>(options[name]);
}

ReadOrder OrderNamed(const std::string& name) {
  if (name == "exact") return ReadOrder::kExact;
  return name == "rounds" ? ReadOrder::kRounds : ReadOrder::kFirstCome;
}

ReadVisitation VisitationNamed(const std::string& name) {
  if (name == "at_least_once") return ReadVisitation::kAtLeastOnce;
  return name == "at_most_once" ? ReadVisitation::kAtMostOnce : ReadVisitation::kExactlyOnce;
}

ReadSharding ShardingNamed(const std::string& name) {
  if (name == "off") return ReadSharding::kOff;
  if (name == "static_data") return ReadSharding::kStaticData;
  return name == "static_file" ? ReadSharding::kStaticFile : ReadSharding::kDynamic;
}

ReadOnLost OnLostNamed(const std::string& name) {
  if (name == "wait") return ReadOnLost::kWait;
  return name == "go_on" ? ReadOnLost::kGoOn : ReadOnLost::kAuto;
}

ReaderHandle* Open(const DefinitionObject& definition, const nb::dict& said, Seconds timeout) {
  DataReaderOptions options{
      .address = Option<std::string>(said, "address"),
      .definition = definition.definition(),
      .name = Option<std::string>(said, "name"),
      .repetition = Option<int64_t>(said, "repetition"),
      .order = OrderNamed(Option<std::string>(said, "order")),
      .sharding = ShardingNamed(Option<std::string>(said, "sharding")),
      .visitation = VisitationNamed(Option<std::string>(said, "visitation")),
      .on_lost = OnLostNamed(Option<std::string>(said, "on_lost")),
      .consumers = Option<int32_t>(said, "consumers"),
      .index = Option<int32_t>(said, "index"),
      .shares = Option<int32_t>(said, "shares"),
      .cursor = FromBytes(Option<nb::bytes>(said, "cursor")),
      .consumer = Option<std::string>(said, "consumer"),
      .member = Option<bool>(said, "member"),
      .rejoin = FromBytes(Option<nb::bytes>(said, "rejoin")),
      .acknowledge_by_itself = Option<bool>(said, "ack"),
      .unacknowledged_max = Option<int64_t>(said, "unacknowledged_max"),
      .unacknowledged_bytes_max = Option<uint64_t>(said, "unacknowledged_bytes_max"),
      .timeout = ToDuration(timeout),
  };
  absl::StatusOr<std::unique_ptr<DataReader>> opened = absl::UnknownError("");
  {
    const WithoutGil without;
    options.interrupted = without.LooksForEnd();
    opened = DataReader::Open(std::move(options));
  }
  return new ReaderHandle(ValueOrThrow(std::move(opened)));
}

// (leaves, (segment, element, round, lane)); None: the end.
nb::object Next(ReaderHandle& self, Seconds timeout) {
  const std::shared_ptr<DataReader> reader = self.Get();
  absl::StatusOr<std::optional<DataElement>> next = absl::UnknownError("");
  {
    const WithoutGil without(self.closed());
    next = reader->Next({.timeout = ToDuration(timeout), .interrupted = without.LooksForEnd()});
  }
  const auto element = ValueOrThrow(std::move(next));
  if (!element) return nb::none();
  const ElementPlace& place = element->place();
  return nb::make_tuple(LeavesOf(element->frame(), element->keeps()),
                        nb::make_tuple(place.segment, place.element, place.round, place.lane));
}

nb::dict Counters(ReaderHandle& self) {
  const DataReaderView view = self.Get()->View();
  nb::dict result;
  result["elements"] = view.elements;
  result["bytes"] = view.bytes;
  result["buffered_bytes"] = view.buffered_bytes;
  result["reads"] = view.reads;
  result["stalls"] = view.stalls;
  result["stalled_seconds"] = absl::ToDoubleSeconds(view.stalled);
  result["dropped"] = view.dropped;
  result["shared_elements"] = view.shared_elements;
  result["unacknowledged"] = view.unacknowledged;
  result["unacknowledged_bytes"] = view.unacknowledged_bytes;
  return result;
}

}  // namespace

void BindDataReader(nb::module_& module) {
  nb::class_<ReaderHandle>(module, "DataReader")
      .def("name", [](ReaderHandle& self) { return self.Get()->name(); })
      .def("spec_text", [](ReaderHandle& self) { return self.Get()->element_spec(); })
      .def("next", &Next, nb::arg("timeout").none())
      .def("cursor", [](ReaderHandle& self) { return ToBytes(ValueOrThrow(self.Get()->Cursor())); })
      .def("ack", [](ReaderHandle& self) { ThrowUnlessOk(self.Get()->AcknowledgeAll()); })
      .def("counters", &Counters)
      .def("close", &ReaderHandle::Close);
  module.def("open_data_reader", &Open, nb::arg("definition"), nb::arg("options"),
             nb::arg("timeout").none(), nb::rv_policy::take_ownership);
}

}  // namespace lockstep::python
