// What a library in NCCL's place needs of streams. Two files have it: late_stream.cpp, where they are
// support::LateQueue, and cuda_stream.cpp, where they are those of tests/cuda_on_cpu.
#pragma once

#include <functional>
#include <memory>

namespace fake_nccl {

// Asked until it says that it is over. `kept` is its own meanwhile, and null whenever it begins: what was
// captured does so again and again.
using Kept = std::shared_ptr<void>;
using Act = std::function<bool(Kept& kept)>;
void put(void* stream, Act act);
bool captures(void* stream);

}  // namespace fake_nccl
