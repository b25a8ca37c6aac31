// Times collectives among the devices of one process, with a thread for each and nothing beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/measure/samples.h"

namespace boxcar::measure {

using MakeBackend = std::function<std::unique_ptr<backends::Backend>(int devices)>;

// Runs work(thread) on this many threads at once; throws the first error of one of them.
void on_threads(int count, const std::function<void(int)>& work);

// All-reduce, reduce-scatter, all-gather and all-to-all, for groups of these numbers of devices and bytes.
std::vector<GroupSample> measure_groups(const MakeBackend& make, const std::vector<int>& ranks,
                                        const std::vector<int64_t>& bytes);

}  // namespace boxcar::measure
