# For `pip install .` only, where nobody says how the compiler is to be run: as many at a time as there
# are cores, but no more than there is memory for (a file with gRPC in it takes over 1 GiB), and
# through ccache where it is installed. Everybody else says so himself: scripts/setup.sh.
if(NOT SKBUILD)
  return()
endif()

if(NOT DEFINED ENV{CMAKE_BUILD_PARALLEL_LEVEL})
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  cmake_host_system_information(RESULT memory_mib QUERY AVAILABLE_PHYSICAL_MEMORY)
  math(EXPR jobs "${memory_mib} / 1536")
  if(jobs GREATER cores)
    set(jobs ${cores})
  elseif(jobs LESS 1)
    set(jobs 1)
  endif()
  set_property(GLOBAL PROPERTY JOB_POOLS compile=${jobs})  # heeded by Ninja
  set(CMAKE_JOB_POOL_COMPILE compile)
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(LOCKSTEP_CCACHE ccache)
  if(LOCKSTEP_CCACHE)
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      ${LOCKSTEP_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  endif()
endif()
