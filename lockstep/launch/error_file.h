// What a process of torch says of its own error: the file that TORCHELASTIC_ERROR_FILE names, which
// `torch.distributed.elastic.multiprocessing.errors.record` writes. Pure but for `ReadErrorFile`.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::launch {

// Of the file, and of what is shown of it: `error_file_bytes_max`, `error_text_bytes_max`.
inline constexpr size_t kErrorFileBytesMax = 1 << 20;
inline constexpr size_t kErrorTextBytesMax = 400;

// "ValueError: no gradient", on one line that a terminal can show. Empty: it is no such file.
std::string ErrorTextOf(const std::string& json);

// The same of a file; empty also when there is none.
std::string ReadErrorFile(const std::string& path);

}  // namespace lockstep::launch
