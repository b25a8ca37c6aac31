// A library of NVIDIA's, loaded when a run needs it. It stays loaded.
//
//   const SharedLibrary library("libcudnn.so.9", "convolutions on GPUs need it: ...",
//                               "/usr/local/cuda/lib64");
//   library.find("cudnnCreate", create);
//
// Both throw Error (cannot run) with the name, what is missing, and `needed`.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "sbp/error.h"

namespace boxcar::backends::cuda {

class SharedLibrary {
 public:
  // Looks where the loader looks, then in `folder` unless it is empty.
  SharedLibrary(std::string name, std::string needed, const std::string& folder = "")
      : name_(std::move(name)),
        needed_(std::move(needed)),
        library_(dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library_ && !folder.empty())
      library_ = dlopen((folder + "/" + name_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw Error::cannot_run(name_, fmt::format("is not found; {}", needed_));
  }

  template <class Function>
  void find(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (!function) throw Error::cannot_run(name_, fmt::format("has no {}; {}", symbol, needed_));
  }

 private:
  const std::string name_, needed_;
  void* library_;
};

}  // namespace boxcar::backends::cuda
