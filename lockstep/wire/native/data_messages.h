// What a dataset is on the wire, and what consumers ask of workers. Contract:
// proto/lockstep/v1/data.proto; what definitions mean: lockstep/plan/definition.h. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// --- Definitions ---

// A list of whole numbers.
struct DataIntegers {
  std::vector<int64_t> values;

  friend bool operator==(const DataIntegers&, const DataIntegers&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataIntegers";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "values", &DataIntegers::values, kAnyNumber, kNumbers));
  }
};

// A list of byte strings.
struct DataTexts {
  std::vector<Bytes> values;

  friend bool operator==(const DataTexts&, const DataTexts&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataTexts";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "values", &DataTexts::values, kValueBytes, kMany));
  }
};

// An attribute of a node. Exactly one value is set.
struct DataAttribute {
  std::string name;
  std::optional<int64_t> integer;
  // The bits of a double.
  std::optional<uint64_t> real;
  std::optional<bool> truth;
  std::optional<Bytes> text;
  std::optional<DataIntegers> integers;
  std::optional<DataTexts> texts;

  friend bool operator==(const DataAttribute&, const DataAttribute&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataAttribute";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &DataAttribute::name, kIdBytes),
                           Field(2, "integer", &DataAttribute::integer, kAnyNumber),
                           Field(3, "real", &DataAttribute::real, kAnyNumber),
                           Field(4, "truth", &DataAttribute::truth),
                           Field(5, "text", &DataAttribute::text, kValueBytes),
                           Field(6, "integers", &DataAttribute::integers),
                           Field(7, "texts", &DataAttribute::texts));
  }
};

// One operator of a dataset, and what it reads.
struct DataNode {
  uint32_t id = 0;
  std::string op;
  // Ids of nodes before it.
  std::vector<uint32_t> inputs;
  // By name, ascending.
  std::vector<DataAttribute> attributes;
  // FILE:LINE of the program that asked for it, for errors; no part of what the dataset is.
  Bytes where;

  friend bool operator==(const DataNode&, const DataNode&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataNode";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "id", &DataNode::id, kCheckedNumber),
                           Field(2, "op", &DataNode::op, kIdBytes),
                           Field(3, "inputs", &DataNode::inputs, kCheckedNumber, kNumbers),
                           Field(4, "attributes", &DataNode::attributes, {}, kMany),
                           Field(5, "where", &DataNode::where, kSentenceBytes));
  }
};

// How the elements of a dataset are made. In topological order, the root last.
struct DataDefinition {
  uint32_t version = 0;
  std::vector<DataNode> nodes;

  friend bool operator==(const DataDefinition&, const DataDefinition&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataDefinition";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "version", &DataDefinition::version, kCheckedNumber),
                           Field(2, "nodes", &DataDefinition::nodes, {}, kMany));
  }
};

// A file as it was when it was counted.
struct DataFile {
  // Which node reads it.
  uint32_t node = 0;
  Bytes path;
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  int64_t records = 0;

  friend bool operator==(const DataFile&, const DataFile&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataFile";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "node", &DataFile::node, kCheckedNumber),
                           Field(2, "path", &DataFile::path, kIdBytes),
                           Field(3, "bytes", &DataFile::bytes, kNatural),
                           Field(4, "mtime_ns", &DataFile::mtime_ns, kAnyNumber),
                           Field(5, "records", &DataFile::records, kNatural));
  }
};

// "float32[3,4]" for npy.
struct DataFileSpec {
  uint32_t node = 0;
  std::string spec;

  friend bool operator==(const DataFileSpec&, const DataFileSpec&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataFileSpec";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "node", &DataFileSpec::node, kCheckedNumber),
                           Field(2, "spec", &DataFileSpec::spec, kSentenceBytes));
  }
};

// What the files of a dataset were, in the order in which their records count.
struct DataManifest {
  std::vector<DataFile> files;
  // What only files can tell of a source's elements.
  std::vector<DataFileSpec> specs;

  friend bool operator==(const DataManifest&, const DataManifest&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataManifest";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "files", &DataManifest::files, {}, kMany),
                           Field(2, "specs", &DataManifest::specs, {}, kMany));
  }
};

// --- Elements ---

// Of a consumer to a worker: elements of a segment. The answer is a chunk, raw
// (docs/formats/data.md).
struct ReadSegment {
  int64_t dataset = 0;
  int64_t segment = 0;
  // The first element that is wanted, and then each so many-th; 0 is as 1.
  int64_t from = 0;
  uint32_t stride = 0;
  // Of the answer; 0: none, the worker is only to begin.
  uint32_t elements_max = 0;
  // At least one element comes, however long; 0: as the worker likes it.
  uint64_t bytes_max = 0;
  // Leases of places whose elements are not looked at any more.
  std::vector<uint64_t> released;
  // What `ShareMemory` answered: the answer may say a place. 0: it may not.
  uint64_t memory = 0;
  // The answer gives an element only when so many more behind it are known, or the segment's end.
  uint64_t ahead = 0;

  friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReadSegment";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &ReadSegment::dataset, kCheckedNumber),
                           Field(2, "segment", &ReadSegment::segment, kCheckedNumber),
                           Field(3, "from", &ReadSegment::from, kCheckedNumber),
                           Field(4, "stride", &ReadSegment::stride, kAnyNumber),
                           Field(5, "elements_max", &ReadSegment::elements_max, kAnyNumber),
                           Field(6, "bytes_max", &ReadSegment::bytes_max, kAnyNumber),
                           Field(7, "released", &ReadSegment::released, kCheckedNumber, kMany),
                           Field(8, "memory", &ReadSegment::memory, kCheckedNumber),
                           Field(9, "ahead", &ReadSegment::ahead, kCheckedNumber));
  }
};

// Of a consumer to a worker of its host: where do I get your memory?
struct ShareMemory {
  friend bool operator==(const ShareMemory&, const ShareMemory&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ShareMemory";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct ShareMemoryReply {
  // To be said in each `ReadSegment`, and first on the socket. 0: the worker shares none.
  uint64_t memory = 0;
  // Of a unix socket that hands out the descriptors of the memory.
  std::string unix_address;
  Bytes token;

  friend bool operator==(const ShareMemoryReply&, const ShareMemoryReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ShareMemoryReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "memory", &ShareMemoryReply::memory),
                           Field(2, "unix_address", &ShareMemoryReply::unix_address),
                           Field(3, "token", &ShareMemoryReply::token));
  }
};

}  // namespace lockstep::wire::native
