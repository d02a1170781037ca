#include "lockstep/cli/tar.h"

#include <cstdio>
#include <cstring>

namespace lockstep::cli {
namespace {

constexpr size_t kBlock = 512;

// POSIX's ustar header: numbers are octal text.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char device[16];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kBlock);
static_assert(kTarNameBytesMax < sizeof(Header::name));  // the name ends with a zero

}  // namespace

void AppendTarFile(std::string_view name, std::string_view content, int64_t unix_seconds,
                   std::string& archive) {
  Header header = {};
  name.copy(header.name, kTarNameBytesMax);
  std::snprintf(header.mode, sizeof header.mode, "%07o", 0644u);
  std::snprintf(header.uid, sizeof header.uid, "%07o", 0u);
  std::snprintf(header.gid, sizeof header.gid, "%07o", 0u);
  std::snprintf(header.size, sizeof header.size, "%011zo", content.size());
  std::snprintf(header.mtime, sizeof header.mtime, "%011lo",
                static_cast<unsigned long>(unix_seconds));
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  // Summed up as if the sum itself were spaces.
  std::memset(header.checksum, ' ', sizeof header.checksum);
  unsigned int sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += reinterpret_cast<const unsigned char*>(&header)[i];
  std::snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  archive.append(reinterpret_cast<const char*>(&header), kBlock);
  archive.append(content);
  archive.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void FinishTar(std::string& archive) { archive.append(2 * kBlock, '\0'); }

}  // namespace lockstep::cli
