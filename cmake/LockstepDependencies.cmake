# What we take from elsewhere, and nothing else. All of it is packaged in Debian 12; the list of
# packages stands in scripts/setup.sh.
find_package(Threads REQUIRED)
find_package(absl REQUIRED CONFIG)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
else()
  # The tests stay declared, for nobody to build.
  foreach(name gtest gtest_main gmock gmock_main)
    add_library(GTest::${name} INTERFACE IMPORTED)
  endforeach()
endif()
find_package(spdlog REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
find_package(yaml-cpp REQUIRED CONFIG)
find_package(Protobuf REQUIRED)
find_package(SQLite3 REQUIRED)

if(LOCKSTEP_SERVER)
  find_package(gRPC REQUIRED CONFIG)
  # What the server answers Prometheus with.
  find_package(prometheus-cpp REQUIRED CONFIG)
  add_library(lockstep_metrics INTERFACE)
  target_link_libraries(lockstep_metrics INTERFACE prometheus-cpp::core)
  set(of_server REQUIRED)
endif()

# OpenSSL for connections between hosts, in programs, and for the source `kubernetes`. cpp-httplib only for tests, which talk to our listeners and clients with it; by its pkg-config
# file: the layout of its classes depends on the macros that Debian built it with.
find_package(PkgConfig ${of_server})
find_package(OpenSSL REQUIRED)
if(PkgConfig_FOUND)
  pkg_check_modules(LOCKSTEP_CPP_HTTPLIB ${of_server} IMPORTED_TARGET cpp-httplib)
endif()
if(OpenSSL_FOUND AND LOCKSTEP_CPP_HTTPLIB_FOUND)
  add_library(lockstep_http INTERFACE)
  target_link_libraries(lockstep_http INTERFACE PkgConfig::LOCKSTEP_CPP_HTTPLIB OpenSSL::SSL
    OpenSSL::Crypto Threads::Threads)
endif()

# Header-only, without package files of their own.
find_path(LOCKSTEP_ASIO_INCLUDE asio.hpp REQUIRED)
add_library(lockstep_asio INTERFACE)
target_include_directories(lockstep_asio SYSTEM INTERFACE ${LOCKSTEP_ASIO_INCLUDE})
# The last: else Asio decides by what was included before it, and one file frees by `delete` what another
# one got from `aligned_alloc`.
target_compile_definitions(lockstep_asio INTERFACE
  ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_HAS_STD_ALIGNED_ALLOC)
target_link_libraries(lockstep_asio INTERFACE Threads::Threads)
if(LOCKSTEP_SANITIZE MATCHES thread)
  # Asio's fences say nothing that its mutexes do not, and the thread sanitizer cannot follow fences.
  target_compile_definitions(lockstep_asio INTERFACE ASIO_DISABLE_FENCED_BLOCK)
endif()

# Beast, which reads HTTP.
find_path(LOCKSTEP_BEAST_INCLUDE boost/beast/http/parser.hpp REQUIRED)
add_library(lockstep_beast INTERFACE)
target_include_directories(lockstep_beast SYSTEM INTERFACE ${LOCKSTEP_BEAST_INCLUDE})

find_path(LOCKSTEP_PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)
add_library(lockstep_protozero INTERFACE)
target_include_directories(lockstep_protozero SYSTEM INTERFACE ${LOCKSTEP_PROTOZERO_INCLUDE})
