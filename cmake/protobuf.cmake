# Protobuf is used if it is found: files for it, or one instead. BOXCAR_HAS_PROTOBUF says which.
find_package(Protobuf QUIET)
set(BOXCAR_HAS_PROTOBUF FALSE)
if(Protobuf_FOUND AND Protobuf_PROTOC_EXECUTABLE)
  set(BOXCAR_HAS_PROTOBUF TRUE)
endif()

# boxcar_messages(TARGET FILE.proto): compiles its messages into the target, which includes them as "FILE.pb.h". They are
# in the build folder of the directory that calls this.
function(boxcar_messages target file)
  protobuf_generate_cpp(message_sources message_headers ${file})
  set_source_files_properties(${message_sources} PROPERTIES COMPILE_OPTIONS -w SKIP_PRECOMPILE_HEADERS ON
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${message_sources} ${message_headers})
  target_include_directories(${target} SYSTEM PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(${target} PRIVATE protobuf::libprotobuf-lite)
endfunction()
