// torch_dump ops FILE SEED | torch_dump training FOLDER | torch_dump averages FILE
#include "dump.h"

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 2 ? argv[1] : "";
    if (what == "ops" && argc == 4) {
      boxcar::tests::dump_ops(argv[2], std::stoull(argv[3]));
    } else if (what == "training" && argc == 3) {
      boxcar::tests::dump_training(argv[2]);
    } else if (what == "averages" && argc == 3) {
      boxcar::tests::dump_averages(argv[2]);
    } else {
      std::fputs("usage: torch_dump ops FILE SEED | training FOLDER | averages FILE\n", stderr);
      return 2;
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_dump: %s\n", error.what());
    return 3;
  }
}
