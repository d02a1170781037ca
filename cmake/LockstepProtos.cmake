# lockstep_generate_proto(OUT [GRPC] PROTOS path/without/suffix ...): what protoc makes of them, in the
# build tree; with GRPC the services instead of the messages.
function(lockstep_generate_proto out)
  cmake_parse_arguments(arg "GRPC" "" "PROTOS" ${ARGN})
  set(sources)
  foreach(proto ${arg_PROTOS})
    set(made ${CMAKE_BINARY_DIR}/${proto}.pb.cc)
    set(command protobuf::protoc --cpp_out=${CMAKE_BINARY_DIR})
    set(needs protobuf::protoc)
    if(arg_GRPC)
      set(made ${CMAKE_BINARY_DIR}/${proto}.grpc.pb.cc)
      set(command protobuf::protoc --grpc_out=${CMAKE_BINARY_DIR}
                  --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
      list(APPEND needs gRPC::grpc_cpp_plugin)
    endif()
    string(REGEX REPLACE "[.]cc$" ".h" header ${made})
    add_custom_command(OUTPUT ${made} ${header}
      COMMAND ${command} -I${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${proto}.proto
      DEPENDS ${CMAKE_SOURCE_DIR}/${proto}.proto ${needs} VERBATIM)
    list(APPEND sources ${made})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# lockstep_generated_library(NAME SOURCE...). Not ours to warn about, so without lockstep_flags; but sanitized like everything else.
function(lockstep_generated_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} SYSTEM PUBLIC ${CMAKE_BINARY_DIR})
  if(LOCKSTEP_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  endif()
endfunction()
