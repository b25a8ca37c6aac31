# Sets BOXCAR_HAS_CUDA, and enables the language where the CUDA backend is built. AUTO: where nvcc is found, in plain
# builds with g++; the passes of clang and of the sanitizers do without.
set(BOXCAR_HAS_CUDA OFF)
if(BOXCAR_CUDA STREQUAL "AUTO")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT BOXCAR_SANITIZE)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(BOXCAR_HAS_CUDA ON)
    endif()
  endif()
elseif(BOXCAR_CUDA)
  set(BOXCAR_HAS_CUDA ON)
endif()

if(BOXCAR_HAS_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # and code that later ones translate
  endif()
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 does not know how nvcc 13 is asked for C++20
  enable_language(CUDA)
  find_package(CUDAToolkit 12.4 REQUIRED)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
endif()
message(STATUS "CUDA backend: ${BOXCAR_HAS_CUDA}")
