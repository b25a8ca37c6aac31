# Headers that nearly all files see are compiled once: they take a third of the time of a build.

# boxcar_precompile(TARGET headers...): makes them, for this target and for others with the same flags.
function(boxcar_precompile target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  boxcar_keep_precompiled(${target})
endfunction()

# boxcar_see_headers(TARGET MADE_BY): takes those of the target MADE_BY. Files with options of their own cannot:
# boxcar_own_options says so.
function(boxcar_see_headers target made_by)
  target_precompile_headers(${target} REUSE_FROM ${made_by})
  boxcar_keep_precompiled(${target})
  target_link_libraries(${target} PRIVATE fmt::fmt)
endfunction()

# boxcar_own_options(OPTIONS files...)
function(boxcar_own_options options)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS "${options}")
  set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# boxcar_unity(TARGET [NAMED name] files...): compiles files together, about eight at a time. Its name alone decides which
# group a file is in, so a new file changes one group. NAMED: no file of another call for this target is in these groups.
function(boxcar_unity target)
  if(NOT BOXCAR_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAMED" "" ${ARGN})
  set(files ${ARG_UNPARSED_ARGUMENTS})
  list(LENGTH files count)
  set(groups 1)
  while(count GREATER 10)  # groups are halved, so that files that were apart stay apart
    math(EXPR groups "2 * ${groups}")
    math(EXPR count "(${count} + 1) / 2")
  endwhile()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    string(MD5 hash ${name})
    string(SUBSTRING ${hash} 0 4 digits)
    math(EXPR group "0x${digits} % ${groups}")
    set_property(SOURCE ${file} PROPERTY UNITY_GROUP ${target}_${ARG_NAMED}${group})
  endforeach()
endfunction()

# boxcar_alone(TARGET files...): these are compiled by themselves with BOXCAR_UNITY too. For a class whose members have
# types of the file's unnamed namespace, of which g++ warns anywhere but in the file itself.
function(boxcar_alone target)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Options that ccache needs to keep objects that were made with precompiled headers.
function(boxcar_keep_precompiled target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>"
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# boxcar_shareable(TARGET): its objects may also go into a shared library, as those of boxcar._core do.
function(boxcar_shareable target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # g++ otherwise inlines no function that another library could replace.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>")
endfunction()

foreach(headers boxcar_headers boxcar_shareable_headers)
  add_library(${headers} OBJECT ${CMAKE_CURRENT_LIST_DIR}/headers.cpp)
  target_link_libraries(${headers} PRIVATE fmt::fmt)
  boxcar_precompile(${headers} <fmt/format.h> <fmt/ranges.h> <algorithm> <functional> <map> <memory> <set> <string>
    <vector>)
endforeach()
boxcar_shareable(boxcar_shareable_headers)
