# The headers of others that nearly every source reads, read once (LOCKSTEP_PRECOMPILE): the standard
# library, Abseil and, for tests, GoogleTest take a compiler 3 to 4 s a source. Our own headers are not
# among them, so that a change of one rebuilds only what includes it. As with LOCKSTEP_UNITY, the preset
# `dev` goes without, and so finds what a source forgot to include.
#
# A precompiled header does only for sources that are compiled with the flags that it was made with.
# Hence one for each kind of target, made by a library of nothing that `lockstep_precompiled_KIND` names.
set(LOCKSTEP_COMMON_HEADERS
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <functional> <limits> <list> <map>
  <memory> <optional> <set> <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant>
  <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/status/status.h>
  <absl/status/statusor.h> <absl/strings/cord.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/time/time.h>)
set(LOCKSTEP_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)

# lockstep_precompiled(TARGET library|test): its sources get them. Decided when every target is known,
# since what goes into the Python extension is told that later.
function(lockstep_precompiled target kind)
  if(LOCKSTEP_PRECOMPILE)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

function(lockstep_precompiled_carrier kind)
  set(carrier lockstep_precompiled_${kind})
  if(NOT TARGET ${carrier})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/CMakeFiles/nothing.cc CONTENT "")
    add_library(${carrier} OBJECT ${CMAKE_BINARY_DIR}/CMakeFiles/nothing.cc)
    target_link_libraries(${carrier} PRIVATE
      lockstep_flags absl::cord absl::flat_hash_map absl::flat_hash_set absl::status absl::statusor
      absl::str_format absl::strings absl::time)
    target_precompile_headers(${carrier} PRIVATE ${LOCKSTEP_COMMON_HEADERS})
  endif()
endfunction()

# lockstep_reuse_precompiled(): once, when every target is known.
function(lockstep_reuse_precompiled)
  get_property(libraries GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_library)
  foreach(target IN LISTS libraries)
    get_target_property(pic ${target} POSITION_INDEPENDENT_CODE)
    set(kind library)
    if(pic)
      set(kind pic)
    endif()
    lockstep_precompiled_carrier(${kind})
    set_target_properties(lockstep_precompiled_${kind} PROPERTIES
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    if(pic)
      set_target_properties(lockstep_precompiled_pic PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_${kind})
  endforeach()
  get_property(tests GLOBAL PROPERTY LOCKSTEP_PRECOMPILED_test)
  if(tests)
    lockstep_precompiled_carrier(test)
    target_compile_options(lockstep_precompiled_test PRIVATE ${LOCKSTEP_TEST_OPTIONS})
    target_link_libraries(lockstep_precompiled_test PRIVATE GTest::gmock GTest::gtest)
    target_precompile_headers(lockstep_precompiled_test PRIVATE ${LOCKSTEP_TEST_HEADERS})
  endif()
  foreach(target IN LISTS tests)
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_test)
  endforeach()
endfunction()
