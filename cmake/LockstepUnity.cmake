# Several sources of a target are compiled together (LOCKSTEP_UNITY): a build from nothing takes less
# than half of the time, since most of it goes into reading headers. scripts/unity_groups.py says which
# may go together. For people who change things the preset `dev` compiles each source by itself, and so
# finds what a source forgot to include.
#
# lockstep_together(TARGET SOURCE...): these may be compiled together.
function(lockstep_together target)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    if(path MATCHES "[.]cc$" AND EXISTS ${path})
      set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TOGETHER "${target} ${path}")
      # Another name in a source may ask for other groups.
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    endif()
  endforeach()
endfunction()

# lockstep_group_sources(): once, when every target is known.
function(lockstep_group_sources)
  if(NOT LOCKSTEP_UNITY)
    return()
  endif()
  get_property(lines GLOBAL PROPERTY LOCKSTEP_TOGETHER)
  list(JOIN lines "\n" text)
  file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/unity_sources.txt "${text}\n")
  execute_process(
    COMMAND ${LOCKSTEP_GENERATOR_PYTHON} ${CMAKE_SOURCE_DIR}/scripts/unity_groups.py
            ${CMAKE_BINARY_DIR}/CMakeFiles/unity_sources.txt
    OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" groups "${groups}")
  foreach(line ${groups})
    string(REPLACE " " ";" line "${line}")
    list(GET line 0 target)
    list(GET line 1 group)
    list(GET line 2 source)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target}
      PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
endfunction()
