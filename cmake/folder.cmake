# boxcar_folder(TARGET DIR USES... [LINK libraries...] [SOURCES globs...])
#
# Makes the library boxcar_TARGET (alias boxcar::TARGET) from DIR/*.cpp. Its headers are seen as
# "DIR/name.h" by the targets that link it and by no others: each target exports an include root of its
# own that holds one link, DIR, so an include against the table of docs/design.md does not compile.
function(boxcar_folder target dir)
  cmake_parse_arguments(ARG "" "" "USES;LINK;PRIVATE_LINK;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES "${dir}/*.cpp")
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_SOURCES})

  set(root "${PROJECT_BINARY_DIR}/include/${target}")
  get_filename_component(parent "${root}/${dir}" DIRECTORY)
  file(MAKE_DIRECTORY "${parent}")
  if(NOT EXISTS "${root}/${dir}")
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${dir}" "${root}/${dir}" SYMBOLIC)
  endif()

  if(sources)
    add_library(boxcar_${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(boxcar_${target} PRIVATE ${ARG_PRIVATE_LINK})
  else()
    add_library(boxcar_${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(boxcar::${target} ALIAS boxcar_${target})
  target_include_directories(boxcar_${target} ${scope} "${root}")
  list(TRANSFORM ARG_USES PREPEND "boxcar::")
  target_link_libraries(boxcar_${target} ${scope} ${ARG_USES} ${ARG_LINK})
endfunction()
