# `lockstep_pic_absl`: abseil for code that is loaded into other people's processes. Only for the
# Python extension; programs link find_package(absl) as it is.
#
# An extension must carry abseil inside, hidden: a shared one would be one more library of a name
# and version that jax, torch or tensorflow may bring too. Debian's libabsl_*.a are not
# position-independent (R_X86_64_TPOFF32, R_X86_64_PC32), so no shared object can be made of them.
# When the abseil that was found can be linked into one, it is taken. Otherwise the same release is
# compiled here from the tarball that Debian's package is made of, against the *installed* headers:
# our own libraries are compiled once, and what they see is what they get.
#
# Without the network: -DFETCHCONTENT_SOURCE_DIR_LOCKSTEP_ABSEIL=DIR, with that release unpacked.
include(FetchContent)

set(pic_probe ${CMAKE_BINARY_DIR}/CMakeFiles/lockstep_pic_absl_probe.cc)
file(WRITE ${pic_probe}.new
  "#include \"absl/strings/str_cat.h\"\n"
  "#include \"absl/synchronization/mutex.h\"\n"
  "absl::Mutex mutex;\n"
  "std::string Probe(int n) { absl::MutexLock lock(&mutex); return absl::StrCat(n); }\n"
  "int main() { return Probe(1).empty(); }\n")
file(COPY_FILE ${pic_probe}.new ${pic_probe} ONLY_IF_DIFFERENT)
if(NOT DEFINED LOCKSTEP_ABSEIL_IS_PIC)
  try_compile(LOCKSTEP_ABSEIL_IS_PIC
    SOURCES ${pic_probe}
    CMAKE_FLAGS -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    LINK_OPTIONS -shared
    LINK_LIBRARIES absl::synchronization absl::strings
    CXX_STANDARD 20)
  get_target_property(kind absl::strings TYPE)
  if(kind STREQUAL SHARED_LIBRARY)
    set(LOCKSTEP_ABSEIL_IS_PIC OFF CACHE INTERNAL "")
  endif()
endif()

if(LOCKSTEP_ABSEIL_IS_PIC)
  add_library(lockstep_pic_absl INTERFACE)
  return()
endif()

find_path(LOCKSTEP_ABSEIL_INCLUDE absl/base/options.h REQUIRED)
file(READ ${LOCKSTEP_ABSEIL_INCLUDE}/absl/base/config.h config)
if(NOT config MATCHES "define ABSL_LTS_RELEASE_VERSION 20220623")
  message(FATAL_ERROR "The static abseil in ${LOCKSTEP_ABSEIL_INCLUDE} is neither "
    "position-independent nor release 20220623, whose source is known here. Install one that is "
    "built with CMAKE_POSITION_INDEPENDENT_CODE, or set LOCKSTEP_PYTHON to OFF.")
endif()

set(tarball a/abseil/abseil_20220623.1.orig.tar.gz)
FetchContent_Declare(lockstep_abseil
  URL http://deb.debian.org/debian/pool/main/${tarball}
      https://snapshot.debian.org/archive/debian/20250520T000000Z/pool/main/${tarball}
  URL_HASH SHA256=abfe2897f3a30edaa74bc34365afe3c2a3cd012091a97dc7e008f7016adcd5fe
  DOWNLOAD_EXTRACT_TIMESTAMP OFF
  SOURCE_SUBDIR none)  # its own CMake files would declare absl::* again
FetchContent_MakeAvailable(lockstep_abseil)

set(absl_sources)
foreach(folder base container debugging hash numeric profiling status strings synchronization time
               types)
  file(GLOB_RECURSE found ${lockstep_abseil_SOURCE_DIR}/absl/${folder}/*.cc)
  list(APPEND absl_sources ${found})
endforeach()
list(FILTER absl_sources EXCLUDE REGEX
  "_test[._]|test_|_benchmark|_nonprod|_mock|print_hash|gentables|time_zone_.*tool")
# raw_hash_set.cc of the tarball has not got what Debian's security update added to it.
list(APPEND absl_sources ${PROJECT_SOURCE_DIR}/python/bindings/abseil_hash_table_overflow.cc)

add_library(lockstep_pic_absl_objects STATIC ${absl_sources})
target_include_directories(lockstep_pic_absl_objects SYSTEM PRIVATE ${LOCKSTEP_ABSEIL_INCLUDE})
target_compile_options(lockstep_pic_absl_objects PRIVATE -w -ffunction-sections -fdata-sections)
set_target_properties(lockstep_pic_absl_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

# Whole, so that no member of Debian's archives is asked for; what nobody uses is collected again.
add_library(lockstep_pic_absl INTERFACE)
target_link_libraries(lockstep_pic_absl INTERFACE
  $<LINK_LIBRARY:WHOLE_ARCHIVE,lockstep_pic_absl_objects>)
