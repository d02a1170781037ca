// Writes an archive that every tar reads. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::cli {

// The longest name of a file in it: `tar_name_bytes_max`.
inline constexpr size_t kTarNameBytesMax = 99;

// Appends a plain file. `name` is cut to kTarNameBytesMax bytes.
void AppendTarFile(std::string_view name, std::string_view content, int64_t unix_seconds,
                   std::string& archive);
// Once, last.
void FinishTar(std::string& archive);

}  // namespace lockstep::cli
