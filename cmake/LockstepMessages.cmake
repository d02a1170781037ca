# lockstep_messages: the C++ of our messages, made from proto/lockstep (scripts/generate_messages.py)
# into the build tree, and included as if it lay in the source tree. LOCKSTEP_V1_CODECS and
# LOCKSTEP_STORE_CODECS are the sources of lockstep_wire_native and lockstep_wire_store among it.
set(LOCKSTEP_MESSAGES_DIR ${CMAKE_BINARY_DIR}/messages)
set(LOCKSTEP_V1_PROTOS coordination hosts node_group data data_service data_status job link preemption process
                       rendezvous status stock_call)
set(LOCKSTEP_STORE_PROTOS data_records records torch_records)

# Debian's Python, to which python3-protobuf adds google.protobuf. Isolated (-I): a build of the
# wheel sets PYTHONPATH, which hides the system's packages.
find_program(LOCKSTEP_GENERATOR_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(LOCKSTEP_GENERATOR_PYTHON NAMES python3 REQUIRED)
execute_process(COMMAND ${LOCKSTEP_GENERATOR_PYTHON} -I -c "import google.protobuf"
                RESULT_VARIABLE no_protobuf OUTPUT_QUIET ERROR_QUIET)
if(no_protobuf)
  message(FATAL_ERROR "${LOCKSTEP_GENERATOR_PYTHON} has no google.protobuf: install python3-protobuf, "
                      "or name another with -DLOCKSTEP_GENERATOR_PYTHON=")
endif()

set(protos)
set(headers ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/native/kinds.h)
foreach(name ${LOCKSTEP_V1_PROTOS})
  list(APPEND protos lockstep/v1/${name}.proto)
  list(APPEND LOCKSTEP_V1_CODECS ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/native/${name}_codec.cc)
  list(APPEND headers ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/native/${name}_messages.h
                      ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/native/${name}_pairs.h)
endforeach()
foreach(name ${LOCKSTEP_STORE_PROTOS})
  list(APPEND protos lockstep/store/v1/${name}.proto)
  list(APPEND LOCKSTEP_STORE_CODECS ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/store/${name}_codec.cc)
  list(APPEND headers ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/store/${name}_messages.h
                      ${LOCKSTEP_MESSAGES_DIR}/lockstep/wire/store/${name}_pairs.h)
endforeach()
set(lockstep_proto_sources ${protos} lockstep/options.proto)
list(TRANSFORM lockstep_proto_sources PREPEND ${CMAKE_SOURCE_DIR}/proto/)
set(descriptors ${LOCKSTEP_MESSAGES_DIR}/lockstep.descriptors)
add_custom_command(
  OUTPUT ${headers} ${LOCKSTEP_V1_CODECS} ${LOCKSTEP_STORE_CODECS} ${descriptors}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${LOCKSTEP_MESSAGES_DIR}
  COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR}/proto --include_imports --include_source_info
          --descriptor_set_out=${descriptors} ${protos}
  COMMAND ${LOCKSTEP_GENERATOR_PYTHON} -I ${CMAKE_SOURCE_DIR}/scripts/generate_messages.py
          ${descriptors} ${LOCKSTEP_MESSAGES_DIR}
  DEPENDS ${lockstep_proto_sources} ${CMAKE_SOURCE_DIR}/scripts/generate_messages.py
  COMMENT "Making messages from proto/lockstep"
  VERBATIM)
add_custom_target(lockstep_messages DEPENDS ${headers} ${LOCKSTEP_V1_CODECS} ${LOCKSTEP_STORE_CODECS})

# lockstep_made_sources(TARGET SOURCE...): adds generated sources to a target.
function(lockstep_made_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  add_dependencies(${target} lockstep_messages)
endfunction()

# lockstep_protobuf_library(NAME PROTO...): protobuf's own classes for each PROTO. For tests only.
function(lockstep_protobuf_library name)
  set(generated_dir ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(made)
  foreach(proto ${ARGN})
    string(REGEX REPLACE "[.]proto$" "" stem ${proto})
    set(outputs ${generated_dir}/${stem}.pb.cc ${generated_dir}/${stem}.pb.h)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${generated_dir}
      COMMAND protobuf::protoc --cpp_out=${generated_dir} -I ${CMAKE_SOURCE_DIR}/proto ${proto}
      DEPENDS ${lockstep_proto_sources}
      VERBATIM)
    list(APPEND made ${outputs})
  endforeach()
  add_library(${name} STATIC ${made})
  target_include_directories(${name} SYSTEM PUBLIC ${generated_dir})
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
endfunction()
