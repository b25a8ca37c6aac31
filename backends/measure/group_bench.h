// How long collectives take among the devices of one process, a thread to each, nothing beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/measure/samples.h"

namespace boxcar::measure {

using MakeBackend = std::function<std::unique_ptr<backends::Backend>(int devices)>;

// Runs work(thread) on so many threads at once; throws the first error of one of them.
void on_threads(int count, const std::function<void(int)>& work);

// All-reduce, reduce-scatter, all-gather and all-to-all, of groups of so many devices and so many bytes.
std::vector<GroupSample> measure_groups(const MakeBackend& make, const std::vector<int>& ranks,
                                        const std::vector<int64_t>& bytes);

}  // namespace boxcar::measure
