// What a dataset is made of: a graph of named operators, which client, dispatcher and worker read
// alike. Pure.
//
// Operators, their inputs and attributes (i: int64, b: bool, s: text or bytes, [i], [s]: lists;
// = the default):
//
//   sources: no input. `paths` are globs, expanded where the files are (engine/resolve.h).
//   range      start i=0, stop i, step i=1                          single int64
//   array      names [s] ("" alone: single), dtypes [s], shapes [s] ("3,4"), data [s]: the bytes of
//              each, C order; all have the same first dimension, which counts the records
//   npy        paths [s], spec s=""                                 single: one row of a file; the
//   spec,
//              such as "float32[3,4]", lets expressions be checked before files are seen
//   windows    paths [s], dtype s, length i, stride i=length        single, of `length`
//   records    paths [s], bytes i                                   single uint8, of `bytes`
//   lines      paths [s], text b=true (UTF-8, else bytes)           single; "\n" and "\r\n" end a
//   line tfrecord   paths [s]                                            single bytes fill count i,
//   dtype s, shape [i], seed i=0                single; made up, for measuring
//
//   plan operators: which record stands at which position. They come before `filter` and `batch`;
//   put behind `map` they mean the same as before it.
//   shuffle    seed i, reshuffle b=true: another order in each epoch of a `repeat` behind it
//   repeat     count i=-1 (for ever)
//   take       count i
//   skip       count i
//   concat     two inputs and more, of the same elements
//   zip        two inputs and more; names [s]: one for each input that is single
//   mix        two inputs and more, of the same elements; weights [i]. Ends with the first that
//   ends
//
//   segment operators: run within a segment, whose elements are a pure function of its number.
//   map        expression s                                         see plan/expression.h
//   filter     expression s
//   map_python function s ("module:function"), spec s (what it returns), timeout_ms i=60000
//   batch      count i, drop_remainder b=false. Behind a `filter`, or where an element may be
//   skipped, a
//              batch ends with its segment
//
// Any source and any segment operator but `batch` may have
//   on_error   s="fail": fail, with the position | "skip": leave the element out
//   error_budget i=-1: with "skip", so many in a segment, then fail; -1: any number
// The last node may have `segment` i: positions of a segment (rounded up to whole batches).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::plan {

// Bytes travel as std::string.
using Attr = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                          std::vector<std::string>>;

struct Node {
  uint32_t id = 0;  // anything, once
  std::string op;
  std::vector<uint32_t> inputs;  // of nodes before this one
  std::map<std::string, Attr> attrs;
  std::string where;  // the user's FILE:LINE; no part of the identity

  friend bool operator==(const Node&, const Node&) = default;
};

struct Definition {
  uint32_t version = 1;
  std::vector<Node> nodes;  // inputs first, the root last

  friend bool operator==(const Definition&, const Definition&) = default;
};

// Of one definition: `definition_nodes_max`, `definition_bytes_max` (with the arrays in it).
inline constexpr size_t kNodesMax = 256;
inline constexpr size_t kDefinitionBytesMax = size_t{32} << 20;
// Of one array: `rank_max`.
inline constexpr size_t kRankMax = 32;

// A file of a source, as it was when the dataset was resolved.
struct FileInfo {
  uint32_t node = 0;  // the source's id
  std::string path;   // absolute, without symbolic links
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  int64_t records = 0;

  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

// In the order in which records count; empty for datasets without files.
struct Manifest {
  std::vector<FileInfo> files;
  // What only files can tell of a source: "float32[3,4]" for npy. By the source's id.
  std::map<uint32_t, std::string> specs;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

enum class DType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kText,   // UTF-8 of any length
  kBytes,  // of any length
};

std::string_view NameOf(DType type);  // "float32"; "text", "bytes"
absl::StatusOr<DType> ParseDType(std::string_view name);
// 0: of any length.
size_t BytesOf(DType type);
inline bool IsVariable(DType type) { return type == DType::kText || type == DType::kBytes; }

inline constexpr int64_t kUnknownDim = -1;

struct Leaf {
  std::string name;  // empty: the only leaf of a `single` spec
  DType type = DType::kInt64;
  std::vector<int64_t> dims;  // kUnknownDim: known only of each element

  // Elements have sizes of their own, which only each of them tells.
  bool variable() const { return IsVariable(type); }
  friend bool operator==(const Leaf&, const Leaf&) = default;
};

// What an element looks like: one array, or several by their names, in this order.
struct ElementSpec {
  std::vector<Leaf> leaves;
  bool single = false;
  bool known = true;  // false: only the manifest will tell (npy)

  friend bool operator==(const ElementSpec&, const ElementSpec&) = default;
};

// "int64[]" of a single leaf, "x:float32[3,?];y:text[]" of several; both ways.
std::string ToText(const ElementSpec& spec);
absl::StatusOr<ElementSpec> ParseSpec(std::string_view text);
// What several leaves may be called: 1 to `leaf_name_bytes_max` bytes without ';'.
inline constexpr size_t kLeafNameBytesMax = 256;
bool IsLeafName(std::string_view name);
// Changes when the spec does; carried by each frame.
uint64_t HashOf(const ElementSpec& spec);

// The elements' spec, when the definition is sound. INVALID_ARGUMENT with kDefinitionInvalid: the
// message begins with the node's `where`, and says what to do. With a manifest it is known in full.
absl::StatusOr<ElementSpec> Check(const Definition& definition);
absl::StatusOr<ElementSpec> Check(const Definition& definition, const Manifest& manifest);

// Whether sources read files, so that a worker must resolve them first.
bool NeedsManifest(const Definition& definition);

// 32 hexadecimal digits, the same for definitions that mean the same: not of ids, the order of
// nodes or `where`.
std::string Identity(const Definition& definition);

}  // namespace lockstep::plan
