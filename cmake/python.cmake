# Python, for the package (cli/python) and for tests. If pybind11 was found, it chooses the version: Debian's is for Debian's
# Python, as its pandas is.
find_path(PYBIND11_INCLUDE pybind11/pybind11.h)
if(PYBIND11_INCLUDE AND NOT DEFINED Python3_EXECUTABLE)
  get_filename_component(Python3_ROOT_DIR ${PYBIND11_INCLUDE} DIRECTORY)
endif()
find_package(Python3 QUIET COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
if(Python3_Development.Module_FOUND)
  find_package(pybind11 CONFIG QUIET)
endif()
