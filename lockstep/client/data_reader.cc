#include "lockstep/client/data_reader.h"

#include "lockstep/client/data_reader_hub.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<DataReader>> DataReader::Open(DataReaderOptions options) {
  auto impl = Impl::Open(std::move(options));
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<DataReader>(new DataReader(*std::move(impl)));
}

DataReader::DataReader(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataReader::~DataReader() {
  if (!impl_->here()) {
    // In a forked child nothing of it may be touched, not even to destroy it.
    new std::shared_ptr<Impl>(impl_);
    return;
  }
  impl_->Close();
}

absl::StatusOr<std::optional<DataElement>> DataReader::Next(CallOptions options) {
  return impl_->Next(options);
}
absl::Status DataReader::Acknowledge(const ElementPlace& place) {
  return impl_->Acknowledge(place);
}
absl::Status DataReader::AcknowledgeAll() { return impl_->AcknowledgeAll(); }
absl::StatusOr<std::string> DataReader::Cursor() const { return impl_->Cursor(); }
std::vector<ReadMark> DataReader::Marks() const { return impl_->Marks(); }
void DataReader::Close() { impl_->Close(); }
const std::string& DataReader::name() const { return impl_->identity().name; }
const std::string& DataReader::consumer() const { return impl_->identity().consumer; }
const std::string& DataReader::element_spec() const { return impl_->identity().element_spec; }
bool DataReader::lease_had_ended() const { return impl_->identity().lease_had_ended; }
const std::vector<ReadMark>& DataReader::counted() const { return impl_->identity().counted; }
DataReaderView DataReader::View() const { return impl_->View(); }

}  // namespace lockstep
