// The structures of DLPack 1.1 that arrays travel in between libraries of one process, as its
// standard lays them out: https://dmlc.github.io/dlpack/latest/c_api.html.
#pragma once

#include <cstdint>

namespace lockstep::python::dlpack {

inline constexpr uint32_t kMajorVersion = 1;
inline constexpr uint32_t kMinorVersion = 1;
inline constexpr int32_t kCpu = 1;
// Memory of the host that a device may reach too.
inline constexpr int32_t kCudaHost = 3;
inline constexpr uint64_t kReadOnly = 1;
inline constexpr uint64_t kIsCopied = 2;

// Of the capsules; a consumer renames what it has taken.
inline constexpr const char* kCapsule = "dltensor";
inline constexpr const char* kVersionedCapsule = "dltensor_versioned";
inline constexpr const char* kUsedCapsule = "used_dltensor";
inline constexpr const char* kUsedVersionedCapsule = "used_dltensor_versioned";

struct Device {
  int32_t type = kCpu;
  int32_t id = 0;
};

struct DataType {
  uint8_t code = 0;
  uint8_t bits = 0;
  uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  int32_t dimensions = 0;
  DataType type;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; null: C order
  uint64_t byte_offset = 0;
};

struct Managed {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(Managed*) = nullptr;
};

struct ManagedVersioned {
  uint32_t major = kMajorVersion;
  uint32_t minor = kMinorVersion;
  void* context = nullptr;
  void (*deleter)(ManagedVersioned*) = nullptr;
  uint64_t flags = 0;
  Tensor tensor;
};

}  // namespace lockstep::python::dlpack
