// What a data_consumer writes down, and what that means when it is read again. Tests only.
//
// First come: a LogRecord for each element, before it is acknowledged. Exact and rounds: a
// CursorRecord, with the place behind the element. Both in one write, which a kill may cut short
// where a page ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/client/data_reader.h"

namespace lockstep::faults {

enum class LogKind : uint32_t {
  kTaken,
  // The lease had ended: what came before is void, but for what the next ones say: so much counted
  // of that segment, and of those before it in the lane all.
  kLeaseEnded,
  kCounted,
};

struct LogRecord {
  LogKind kind = LogKind::kTaken;
  uint32_t cursor_bytes = 0;  // of a CursorRecord
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t element = 0;
  int64_t first = 0;  // the numbers in the element
  int64_t count = 0;
};

inline constexpr size_t kCursorBytesMax = 960;

struct CursorRecord {
  LogRecord taken;
  char cursor[kCursorBytesMax] = {};
};

// Cuts off the record that the process was writing when it died: what is appended next has to begin
// where a record does.
template <class Record>
void DropTornRecord(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes % sizeof(Record) == 0) return;
  std::filesystem::resize_file(path, bytes - bytes % sizeof(Record));
}

// Whole records; one that was being written when the process died does not count.
template <class Record = LogRecord>
std::vector<Record> ReadLog(const std::string& path) {
  std::vector<Record> records;
  std::ifstream file(path, std::ios::binary);
  Record record;
  while (file.read(reinterpret_cast<char*>(&record), sizeof(record))) records.push_back(record);
  return records;
}

// Where its consumer goes on; empty: it has taken nothing.
inline std::string LastCursor(const std::vector<CursorRecord>& log) {
  return log.empty() ? "" : std::string(log.back().cursor, log.back().taken.cursor_bytes);
}

inline std::optional<ReadOrder> OrderOf(std::string_view text) {
  if (text == "first_come") return ReadOrder::kFirstCome;
  if (text == "exact") return ReadOrder::kExact;
  if (text == "rounds") return ReadOrder::kRounds;
  return std::nullopt;
}

// Without what was void when the consumer came back, and went to others.
inline std::vector<LogRecord> WhatCounts(const std::vector<LogRecord>& log) {
  std::vector<LogRecord> valid;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i].kind == LogKind::kTaken) valid.push_back(log[i]);
    if (log[i].kind != LogKind::kLeaseEnded) continue;
    std::map<int64_t, std::map<int64_t, int64_t>> counted;  // by lane and seq
    for (size_t j = i + 1; j < log.size() && log[j].kind == LogKind::kCounted; ++j) {
      counted[log[j].lane][log[j].seq] = log[j].element;
    }
    std::erase_if(valid, [&](const LogRecord& one) {
      const auto& lane = counted[one.lane];
      if (const auto at = lane.find(one.seq); at != lane.end()) return one.element >= at->second;
      return lane.empty() || one.seq > lane.rbegin()->first;
    });
  }
  return valid;
}

inline std::vector<ReadMark> MarksOf(const std::vector<LogRecord>& log) {
  std::map<std::pair<int64_t, int64_t>, int64_t> until;
  for (const LogRecord& record : WhatCounts(log)) {
    int64_t& elements = until[{record.lane, record.seq}];
    elements = std::max(elements, record.element + 1);
  }
  std::vector<ReadMark> marks;
  for (const auto& [at, elements] : until) marks.push_back({at.first, at.second, elements, false});
  return marks;
}

inline plan::Definition NumbersInBatches(int64_t elements, int64_t batch, int64_t segment) {
  plan::Definition definition;
  definition.nodes.push_back({.id = 1, .op = "range", .attrs = {{"stop", elements * batch}}});
  definition.nodes.push_back(
      {.id = 2, .op = "batch", .inputs = {1}, .attrs = {{"count", batch}, {"segment", segment}}});
  return definition;
}

// Of the one leaf of a frame, which stands at its end.
inline std::pair<int64_t, int64_t> FirstAndCount(std::span<const std::byte> frame) {
  // Head of 64 bytes, then the leaf's description: its place and length (docs/formats/data.md).
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::memcpy(&offset, frame.data() + 64 + 8, sizeof(offset));
  std::memcpy(&bytes, frame.data() + 64 + 16, sizeof(bytes));
  int64_t first = -1;
  if (offset + sizeof(first) <= frame.size()) {
    std::memcpy(&first, frame.data() + offset, sizeof(first));
  }
  return {first, static_cast<int64_t>(bytes / sizeof(int64_t))};
}

}  // namespace lockstep::faults
