// The fake NCCL library's interface to streams. Two files implement it: late_stream.cpp with
// support::LateQueue, and cuda_stream.cpp with the streams of tests/cuda_on_cpu.
#pragma once

#include <functional>
#include <memory>

namespace fake_nccl {

// Polled until it returns true. `kept` is the act's own state between polls, and null whenever it begins; a
// captured act begins repeatedly.
using Kept = std::shared_ptr<void>;
using Act = std::function<bool(Kept& kept)>;
// `blocks`: multiprocessors that it has while it runs.
void put(void* stream, Act act, int blocks);
bool captures(void* stream);
// The calling thread makes a call that needs its GPU.
void touch();

}  // namespace fake_nccl
