// The file that tells whoever started a server that it answers, and where.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace lockstep::server {

// Where a job's clients call: stock ones, and torch's in its first attempt (empty: nowhere).
struct JobAddresses {
  std::string grpc;
  std::string store;
};

struct ReadyFacts {
  std::string listen;
  std::string join;  // what programs of other hosts join with; its jobs are the server's
  int pid = 0;
  std::map<std::string, JobAddresses> jobs;
  std::string http;  // empty: not served
};

// {"listen": "127.0.0.1:27001", "join": "lockstep://127.0.0.1:27001#sha256=...", "pid": 17,
//  "jobs": {"digits": {"grpc": "127.0.0.1:27002", "store": "127.0.0.1:27003"}}}
// and "http" where that is served.
std::string ReadyText(const ReadyFacts& facts);

// Removes the file that it wrote when it goes away, so that nobody takes a dead server's file for
// an answer. The file of a server that lives stays until this one has its addresses and writes its
// own.
class ReadyFile {
 public:
  // Empty: does nothing. A file that a dead server left there is removed at once.
  explicit ReadyFile(std::string path);
  ~ReadyFile();
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  // Readers see the old file or the whole new one.
  absl::Status Write(const std::string& text);

 private:
  const std::string path_;
  std::string written_;  // what the file says since we wrote it
};

}  // namespace lockstep::server
