#include "lockstep/data/engine/sources.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"
#include "lockstep/data/engine/file_set.h"
#include "lockstep/data/engine/tfrecord.h"
#include "lockstep/data/engine/utf8.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::engine::internal {
namespace {

using plan::CheckedNode;
using plan::DType;
using plan::Op;

class RangeReader final : public SourceReader {
 public:
  RangeReader(int64_t start, int64_t step) : start_(start), step_(step) {}

  absl::Status Read(std::span<const RowOf> rows, std::span<const Column> columns) override {
    auto* to = reinterpret_cast<int64_t*>(columns[0].data);
    for (const RowOf& row : rows) {
      to[row.row] =
          static_cast<int64_t>(static_cast<uint64_t>(start_) +
                               static_cast<uint64_t>(row.index) * static_cast<uint64_t>(step_));
    }
    return absl::OkStatus();
  }
  std::string NameOf(int64_t index) override { return absl::StrCat("record ", index); }

 private:
  const int64_t start_;
  const int64_t step_;
};

class RangeSource final : public RecordSource {
 public:
  explicit RangeSource(const CheckedNode& node)
      : start_(node.Int("start")), step_(node.Int("step")) {}
  std::unique_ptr<SourceReader> NewReader() const override {
    return std::make_unique<RangeReader>(start_, step_);
  }

 private:
  const int64_t start_;
  const int64_t step_;
};

// Arrays that the definition holds.
class ArraySource final : public RecordSource {
 public:
  explicit ArraySource(const CheckedNode& node)
      : data_(node.As<std::vector<std::string>>("data")) {}
  std::unique_ptr<SourceReader> NewReader() const override {
    return std::make_unique<Reader>(data_);
  }

 private:
  class Reader final : public SourceReader {
   public:
    explicit Reader(const std::vector<std::string>& data) : data_(data) {}

    absl::Status Read(std::span<const RowOf> rows, std::span<const Column> columns) override {
      for (size_t c = 0; c < columns.size(); ++c) {
        const uint64_t bytes = columns[c].row_bytes();
        if (bytes == 0) continue;
        for (const RowOf& row : rows) {
          std::memcpy(columns[c].data + static_cast<uint64_t>(row.row) * bytes,
                      data_[c].data() + static_cast<uint64_t>(row.index) * bytes, bytes);
        }
      }
      return absl::OkStatus();
    }
    std::string NameOf(int64_t index) override { return absl::StrCat("record ", index); }

   private:
    const std::vector<std::string>& data_;
  };

  const std::vector<std::string> data_;
};

// What is copied lies in the cache.
constexpr uint64_t kFillCopy = 128 << 10;

// Item i of record r is r + i + seed, cut to the type; of floats, numbers from 1 to 2.
template <class T>
void FillItems(std::byte* to, uint64_t first, uint64_t items, T mask, T set) {
  auto* out = reinterpret_cast<T*>(to);
  auto value = static_cast<T>(first);
  // Narrow ones repeat, so that most of them are copied.
  const uint64_t period = sizeof(T) > 2 ? items : std::min(items, uint64_t{1} << 8 * sizeof(T));
  for (uint64_t i = 0; i < period; ++i) out[i] = static_cast<T>((value++ & mask) | set);
  for (uint64_t done = period; done < items;) {
    const uint64_t more = std::min({done, items - done, std::max(period, kFillCopy / sizeof(T))});
    std::memcpy(out + done, out, more * sizeof(T));
    done += more;
  }
}

class FillSource final : public RecordSource {
 public:
  explicit FillSource(const CheckedNode& node) : seed_(static_cast<uint64_t>(node.Int("seed"))) {}
  std::unique_ptr<SourceReader> NewReader() const override {
    return std::make_unique<Reader>(seed_);
  }

 private:
  class Reader final : public SourceReader {
   public:
    explicit Reader(uint64_t seed) : seed_(seed) {}

    absl::Status Read(std::span<const RowOf> rows, std::span<const Column> columns) override {
      const auto items = static_cast<uint64_t>(columns[0].items());
      const uint64_t bytes = columns[0].row_bytes();
      for (const RowOf& row : rows) {
        Fill(columns[0].type, columns[0].data + static_cast<uint64_t>(row.row) * bytes,
             static_cast<uint64_t>(row.index) + seed_, items);
      }
      return absl::OkStatus();
    }
    std::string NameOf(int64_t index) override { return absl::StrCat("record ", index); }

   private:
    static void Fill(DType type, std::byte* to, uint64_t first, uint64_t items) {
      switch (type) {
        case DType::kBool:
          return FillItems<uint8_t>(to, first, items, 1, 0);
        case DType::kFloat16:
          return FillItems<uint16_t>(to, first, items, 0x3FF, 0x3C00);
        case DType::kBFloat16:
          return FillItems<uint16_t>(to, first, items, 0x7F, 0x3F80);
        case DType::kFloat32:
          return FillItems<uint32_t>(to, first, items, 0x7FFFFF, 0x3F800000);
        case DType::kFloat64:
          return FillItems<uint64_t>(to, first, items, 0xFFFFFFFFFFFFF, 0x3FF0000000000000);
        default:
          break;
      }
      switch (BytesOf(type)) {
        case 1:
          return FillItems<uint8_t>(to, first, items, 0xFF, 0);
        case 2:
          return FillItems<uint16_t>(to, first, items, 0xFFFF, 0);
        case 4:
          return FillItems<uint32_t>(to, first, items, 0xFFFFFFFF, 0);
        default:
          return FillItems<uint64_t>(to, first, items, ~uint64_t{0}, 0);
      }
    }

    const uint64_t seed_;
  };

  const uint64_t seed_;
};

// Records of fixed size, which lie at equal distances: npy, windows, records.
class FixedFileSource final : public RecordSource {
 public:
  FixedFileSource(std::unique_ptr<FileSet> files, bool npy, plan::Leaf leaf, uint64_t distance)
      : files_(std::move(files)), npy_(npy), leaf_(std::move(leaf)), distance_(distance) {}
  std::unique_ptr<SourceReader> NewReader() const override {
    return std::make_unique<Reader>(*this);
  }

 private:
  class Reader final : public SourceReader {
   public:
    explicit Reader(const FixedFileSource& source) : source_(source), files_(*source.files_) {}

    absl::Status Read(std::span<const RowOf> rows, std::span<const Column> columns) override {
      const uint64_t bytes = columns[0].row_bytes();
      SourceFile* file = nullptr;
      requests_.clear();
      for (const RowOf& row : rows) {
        const auto place = files_.Find(row.index);
        if (!place.ok()) return place.status();
        if (place->file != file) {
          if (file != nullptr) {
            if (absl::Status status = file->Read(requests_); !status.ok()) return status;
            requests_.clear();
          }
          file = place->file;
          const auto data_at = DataAt(*place);
          if (!data_at.ok()) return data_at.status();
          data_at_ = *data_at;
        }
        requests_.push_back(
            {.offset = data_at_ + static_cast<uint64_t>(place->record) * source_.distance_,
             .bytes = bytes,
             .to = columns[0].data + static_cast<uint64_t>(row.row) * bytes});
      }
      return file == nullptr ? absl::OkStatus() : file->Read(requests_);
    }
    absl::Status CheckUnchanged() override { return files_.CheckUnchanged(); }
    std::string NameOf(int64_t index) override { return files_.NameOf(index); }

   private:
    absl::StatusOr<uint64_t> DataAt(const TouchedFiles::Place& place) {
      if (!source_.npy_) return uint64_t{0};
      const auto known = heads_.find(place.number);
      if (known != heads_.end()) return known->second;
      const auto head = ReadNpyHead(*place.file);
      if (!head.ok()) return head.status();
      if (head->type != source_.leaf_.type ||
          !std::equal(head->shape.begin() + 1, head->shape.end(), source_.leaf_.dims.begin(),
                      source_.leaf_.dims.end())) {
        return plan::Error(absl::StatusCode::kFailedPrecondition, plan::kSourceChanged,
                           absl::StrCat(place.file->path(), " has rows of another shape or type ",
                                        "than when the dataset was registered"));
      }
      heads_.emplace(place.number, head->data_at);
      return head->data_at;
    }

    const FixedFileSource& source_;
    TouchedFiles files_;
    std::vector<ReadRequest> requests_;
    std::map<size_t, uint64_t> heads_;
    uint64_t data_at_ = 0;
  };

  const std::unique_ptr<FileSet> files_;
  const bool npy_;
  const plan::Leaf leaf_;
  const uint64_t distance_;
};

// Lines of text, and TFRecord files.
class IndexedFileSource final : public RecordSource {
 public:
  IndexedFileSource(std::unique_ptr<FileSet> files, IndexKind kind, bool text)
      : files_(std::move(files)), kind_(kind), text_(text) {}
  std::unique_ptr<SourceReader> NewReader() const override {
    return std::make_unique<Reader>(*this);
  }

 private:
  struct Record {
    size_t file = 0;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    bool broken = false;
  };

  class Reader final : public SourceReader {
   public:
    explicit Reader(const IndexedFileSource& source) : source_(source), files_(*source.files_) {}

    absl::Status Read(std::span<const RowOf>, std::span<const Column>) override {
      return absl::InternalError("not of fixed size");
    }
    absl::Status Lengths(std::span<const RowOf> rows, std::span<int64_t> lengths) override;
    absl::Status ReadItems(std::span<const RowOf> rows, std::span<std::byte* const> to,
                           std::span<int64_t> lengths, std::vector<Poisoned>& poisoned) override;
    absl::Status CheckUnchanged() override { return files_.CheckUnchanged(); }
    std::string NameOf(int64_t index) override { return files_.NameOf(index); }

   private:
    absl::StatusOr<Record> Find(int64_t index);
    // Why the record is poisoned; null: it is not.
    const char* CheckRecord(const Record& record, std::byte* to, int64_t& length);

    const IndexedFileSource& source_;
    TouchedFiles files_;
    std::vector<ReadRequest> requests_;
    std::vector<Record> records_;
  };

  const std::unique_ptr<FileSet> files_;
  const IndexKind kind_;
  const bool text_;
};

absl::StatusOr<IndexedFileSource::Record> IndexedFileSource::Reader::Find(int64_t index) {
  const auto place = files_.Find(index);
  if (!place.ok()) return place.status();
  const auto file_index = place->file->Index(source_.kind_);
  if (!file_index.ok()) return file_index.status();
  const RecordIndex& entries = **file_index;
  if (place->record >= entries.records()) {
    return plan::Error(
        absl::StatusCode::kFailedPrecondition, plan::kSourceChanged,
        absl::StrCat(place->file->path(), " has fewer records than when the dataset ",
                     "was registered: register it anew"));
  }
  Record record = {.file = place->number, .begin = entries.begins[place->record]};
  record.bytes = entries.begins[place->record + 1] - record.begin;
  record.broken = entries.broken_end && place->record + 1 == entries.records();
  if (record.broken) record.bytes = 0;
  return record;
}

// Places are as long as what stands in the file for the record, framing and all.
absl::Status IndexedFileSource::Reader::Lengths(std::span<const RowOf> rows,
                                                std::span<int64_t> lengths) {
  records_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    auto record = Find(rows[i].index);
    if (!record.ok()) return record.status();
    lengths[i] = static_cast<int64_t>(record->bytes);
    records_.push_back(*record);
  }
  return absl::OkStatus();
}

absl::Status IndexedFileSource::Reader::ReadItems(std::span<const RowOf> rows,
                                                  std::span<std::byte* const> to,
                                                  std::span<int64_t> lengths,
                                                  std::vector<Poisoned>& poisoned) {
  LOCKSTEP_CHECK(records_.size() == rows.size());
  for (size_t i = 0; i < rows.size();) {
    // Of a piece over many files the first ones may have been let go of.
    const auto place = files_.Find(rows[i].index);
    if (!place.ok()) return place.status();
    requests_.clear();
    const size_t first = i;
    for (; i < rows.size() && records_[i].file == place->number; ++i) {
      requests_.push_back({records_[i].begin, records_[i].bytes, to[i]});
    }
    if (absl::Status status = place->file->Read(requests_); !status.ok()) return status;
    for (size_t k = first; k < i; ++k) {
      const char* why = CheckRecord(records_[k], to[k], lengths[k]);
      if (why == nullptr) continue;
      lengths[k] = 0;
      poisoned.push_back({rows[k].row, why});
    }
  }
  return absl::OkStatus();
}

const char* IndexedFileSource::Reader::CheckRecord(const Record& record, std::byte* to,
                                                   int64_t& length) {
  auto* text = reinterpret_cast<char*>(to);
  if (source_.kind_ == IndexKind::kTfRecord) {
    if (record.broken) return "its head is damaged, or the file ends within it";
    length = static_cast<int64_t>(record.bytes - kTfRecordExtraBytes);
    const std::string_view data(text + kTfRecordHeadBytes, static_cast<size_t>(length));
    uint32_t checksum = 0;
    std::memcpy(&checksum, data.data() + data.size(), sizeof(checksum));
    if (TfRecordChecksum(data) != checksum) return "its checksum differs";
    std::memmove(text, data.data(), data.size());
    return nullptr;
  }
  length = static_cast<int64_t>(record.bytes);
  if (length > 0 && text[length - 1] == '\n') --length;
  if (length > 0 && text[length - 1] == '\r') --length;
  if (source_.text_ && !IsUtf8({text, static_cast<size_t>(length)})) return "it is not UTF-8";
  return nullptr;
}

}  // namespace

absl::Status SourceReader::Lengths(std::span<const RowOf>, std::span<int64_t>) {
  return absl::InternalError("of fixed size");
}

absl::Status SourceReader::ReadItems(std::span<const RowOf>, std::span<std::byte* const>,
                                     std::span<int64_t>, std::vector<Poisoned>&) {
  return absl::InternalError("of fixed size");
}

absl::StatusOr<std::shared_ptr<const RecordSource>> MakeSource(const CheckedNode& node,
                                                               const plan::ElementSpec& spec,
                                                               const plan::Manifest& manifest,
                                                               const SourceContext& context) {
  std::vector<plan::FileInfo> infos;
  for (const plan::FileInfo& file : manifest.files) {
    if (file.node == node.node().id) infos.push_back(file);
  }
  auto files = std::make_unique<FileSet>(std::move(infos), context.roots, context.map_files);
  const plan::Leaf& leaf = spec.leaves[0];
  const uint64_t row_bytes = IsVariable(leaf.type) ? 0 : BytesOfItems(leaf.type, leaf.dims);
  switch (node.op()) {
    case Op::kRange:
      return std::make_shared<RangeSource>(node);
    case Op::kArray:
      return std::make_shared<ArraySource>(node);
    case Op::kFill:
      return std::make_shared<FillSource>(node);
    case Op::kWindows: {
      const int64_t stride = node.Int("stride") == -1 ? node.Int("length") : node.Int("stride");
      return std::make_shared<FixedFileSource>(std::move(files), false, leaf,
                                               static_cast<uint64_t>(stride) * BytesOf(leaf.type));
    }
    case Op::kRecords:
    case Op::kNpy:
      return std::make_shared<FixedFileSource>(std::move(files), node.op() == Op::kNpy, leaf,
                                               row_bytes);
    case Op::kLines:
      return std::make_shared<IndexedFileSource>(std::move(files), IndexKind::kLines,
                                                 node.As<bool>("text"));
    default:
      return std::make_shared<IndexedFileSource>(std::move(files), IndexKind::kTfRecord, false);
  }
}

}  // namespace lockstep::engine::internal
