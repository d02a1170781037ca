# lockstep_library(), lockstep_program() and lockstep_test(): every target of ours is made by one of
# them, so that warnings and sanitizers are the same everywhere.

add_library(lockstep_flags INTERFACE)
target_include_directories(lockstep_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wnon-virtual-dtor -Wold-style-cast -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
  -Werror)
# As gRPC's and CMake's own targets have it: sources with and without it could share no precompiled header.
target_compile_options(lockstep_flags INTERFACE -pthread)
if(LOCKSTEP_UNITY)
  # Without the warnings that are about the other sources compiled together with one.
  target_compile_options(lockstep_flags INTERFACE
    -Wshadow=local -Wno-subobject-linkage -Wno-maybe-uninitialized)
  # CMake includes the sources by absolute paths, which __FILE__ would carry into the objects: a
  # compiler cache could not share them with another checkout.
  target_compile_options(lockstep_flags INTERFACE -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
else()
  target_compile_options(lockstep_flags INTERFACE -Wshadow)
endif()
# GCC collects its garbage from 1 GB on (the figure is in kB) instead of 128 MB. A source takes up to a
# tenth less time, and up to 500 MB more.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(lockstep_flags INTERFACE --param=ggc-min-heapsize=1000000)
endif()
# LOCKSTEP_DCHECK (lockstep/base/check.h): the invariants of whole tables.
if(LOCKSTEP_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Debug)
  target_compile_definitions(lockstep_flags INTERFACE LOCKSTEP_CHECK_INVARIANTS)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
# Half the size, and linked as fast: programs of the sanitizers are gigabytes otherwise. The address
# sanitizer needs no relocations, which are a quarter of a program; the thread sanitizer does.
target_link_options(lockstep_flags INTERFACE -Wl,--compress-debug-sections=zlib)
if(LOCKSTEP_SANITIZE MATCHES address)
  target_link_options(lockstep_flags INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()

# For tests: LOCKSTEP_DCHECK in every build.
add_library(lockstep_check_invariants OBJECT ${CMAKE_SOURCE_DIR}/lockstep/testing/check_invariants.cc)
target_link_libraries(lockstep_check_invariants PRIVATE lockstep_flags)

# lockstep_library(NAME SOURCES a.cc ... DEPS lib ...)
function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE $<BUILD_INTERFACE:lockstep_flags>)
    target_include_directories(${name} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
    # Nobody gets at our insides through a shared object that they are linked into.
    lockstep_together(${name} ${arg_SOURCES})
    lockstep_precompiled(${name} library)
    set_target_properties(${name} PROPERTIES
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
    target_include_directories(${name} INTERFACE
      $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  endif()
endfunction()

# lockstep_program(NAME SOURCES a.cc ... DEPS lib ...)
function(lockstep_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  if(LOCKSTEP_SANITIZE MATCHES thread)
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/lockstep/testing/tsan_suppressions.cc)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_DEPS} lockstep_flags)
  lockstep_together(${name} ${arg_SOURCES})
endfunction()

# A test's own source runs once and is compiled on every machine: what it tests is optimised, it is not.
set(LOCKSTEP_TEST_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-Og>)
# Tests that are mostly templates over all messages. Optimised they take minutes to compile, and a blink
# to run either way.
set(LOCKSTEP_TEMPLATE_TESTS
  durability_fuzz_restore_test durability_structured_fuzz_test wire_data_test
  wire_native_contract_test wire_native_test wire_rendezvous_test wire_store_contract_test)

# lockstep_test(NAME LABEL unit|sim|adapter SOURCES a_test.cc ... DEPS lib ...)
# One GoogleTest program, entered into ctest as one test. Folders whose code is pure say
# `set(LOCKSTEP_ONE_THREAD ON)`: the thread sanitizer has nothing to find in their tests, which are a
# third of all that is compiled; the others run them.
function(lockstep_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPS" ${ARGN})
  if(LOCKSTEP_ONE_THREAD AND LOCKSTEP_SANITIZE MATCHES thread)
    return()
  endif()
  lockstep_program(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} lockstep_check_invariants
    GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(name IN_LIST LOCKSTEP_TEMPLATE_TESTS)
    target_compile_options(${name} PRIVATE -O0)
  else()
    target_compile_options(${name} PRIVATE ${LOCKSTEP_TEST_OPTIONS})
    lockstep_precompiled(${name} test)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 600)
endfunction()
