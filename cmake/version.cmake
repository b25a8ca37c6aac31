# Sets version: that of the newest tag v1.2.3 below, if git and its history are available; otherwise the one named here.
set(version 0.1.0)
execute_process(COMMAND git describe --tags --abbrev=0 --match "v[0-9]*.[0-9]*.[0-9]*" WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
                OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed AND tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)$")
  set(version ${CMAKE_MATCH_1})
endif()
