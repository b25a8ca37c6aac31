#include "backends/cuda/shared_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/cpu_reduce.h"
#include "backends/cuda/kernels/launch.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

int64_t before(std::span<const int64_t> counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

const std::byte* at(const void* data, int64_t bytes) {
  return bytes == 0 ? static_cast<const std::byte*>(data) : static_cast<const std::byte*>(data) + bytes;
}

}  // namespace

std::vector<Shown> Table::meet(int rank, Shown mine, cpu::Waits& waits) {
  std::unique_lock lock(mutex_);
  const int64_t number = seats_[static_cast<size_t>(rank)]++;
  auto found = std::find_if(rounds_.begin(), rounds_.end(), [&](const auto& r) { return r.first == number; });
  if (found == rounds_.end()) {
    rounds_.emplace_back(number, std::make_shared<Round>());
    found = std::prev(rounds_.end());
    found->second->shown.resize(seats_.size());
  }
  const std::shared_ptr<Round> round = found->second;
  round->shown[static_cast<size_t>(rank)] = std::move(mine);
  if (++round->came == seats_.size()) {
    rounds_.erase(
        std::find_if(rounds_.begin(), rounds_.end(), [&](const auto& r) { return r.first == number; }));
    changed_.notify_all();
    return round->shown;
  }
  waits.until(
      lock, changed_, [&] { return round->came == seats_.size(); },
      [&] {
        std::string missing = "devices";
        for (size_t r = 0; r < seats_.size(); ++r)
          if (seats_[r] <= number) missing += fmt::format(" {}", devices[r]);
        return missing;
      });
  return round->shown;
}

SharedCommunicator::SharedCommunicator(std::string name, std::shared_ptr<Table> table, int rank,
                                       CudaQueue& queue, cpu::Waits& waits)
    : name_(std::move(name)), table_(std::move(table)), rank_(rank), queue_(queue), waits_(waits) {}

std::vector<Shown> SharedCommunicator::meet(const void* data, std::span<const int64_t> counts) {
  std::vector<Shown> all =
      table_->meet(rank_, {data, {counts.begin(), counts.end()}, queue_.cuda_mark()}, waits_);
  for (size_t r = 0; r < all.size(); ++r)
    if (static_cast<int>(r) != rank_) queue_.wait(*all[r].mark);
  return all;
}

void SharedCommunicator::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) queue_.copy(to, from, {1, bytes, bytes, bytes});
}

void SharedCommunicator::act(const char* what, const std::function<void()>& body) {
  const std::string name = fmt::format("{} in {}", what, name_);
  try {
    const Waiting::Act act(name);
    body();
  } catch (const Error& error) {
    const Error named = Error::fault(name, error.what());
    const std::string outer = Waiting::here();
    waits_.abort(outer + (outer.empty() ? "" : ": ") + named.what());
    throw named;
  }
}

// In place, part r of this member's tensor is read by member r alone, and gather() writes there behind that
// member's mark.
void SharedCommunicator::all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                                    sbp::Reduction reduction) {
  act("all_reduce", [&] {
    std::vector<int64_t> counts;
    for (int r = 0; r < size(); ++r) counts.push_back(sbp::part_range(count, size(), r).size());
    auto* const mine = const_cast<std::byte*>(at(out, before(counts, rank_) * ir::size_of(dtype)));
    scatter(in, mine, counts, dtype, reduction);
    gather(mine, out, counts, dtype);
    meet(nullptr);
  });
}

void SharedCommunicator::reduce_scatter(const void* in, void* out, std::span<const int64_t> counts,
                                        ir::DType dtype, sbp::Reduction reduction) {
  act("reduce_scatter", [&] {
    scatter(in, out, counts, dtype, reduction);
    meet(nullptr);
  });
}

void SharedCommunicator::all_gather(const void* in, void* out, std::span<const int64_t> counts,
                                    ir::DType dtype) {
  act("all_gather", [&] {
    gather(in, out, counts, dtype);
    meet(nullptr);
  });
}

void SharedCommunicator::all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                                    std::span<const int64_t> receive_counts, ir::DType dtype) {
  act("all_to_all", [&] {
    const std::vector<Shown> all = meet(in, send_counts);
    auto* to = static_cast<std::byte*>(out);
    for (int r = 0; r < size(); ++r) {
      const Shown& from = all[static_cast<size_t>(r)];
      const int64_t bytes = receive_counts[static_cast<size_t>(r)] * ir::size_of(dtype);
      const int64_t given = from.counts[static_cast<size_t>(rank_)] * ir::size_of(dtype);
      if (given != bytes)
        throw Error::fault(
            "", fmt::format("device {} gave {} bytes where {} were expected; all members call the same "
                            "functions in the same order",
                            table_->devices[static_cast<size_t>(r)], given, bytes));
      copy(to, at(from.data, before(from.counts, rank_) * ir::size_of(dtype)), bytes);
      if (bytes > 0) to += bytes;
    }
    meet(nullptr);
  });
}

void SharedCommunicator::broadcast(const void* in, void* out, int64_t count, ir::DType dtype) {
  act("broadcast", [&] {
    const std::vector<Shown> all = meet(in);
    copy(out, all[0].data, count * ir::size_of(dtype));
    meet(nullptr);
  });
}

void SharedCommunicator::barrier() {
  act("barrier", [&] { meet(nullptr); });
}

void SharedCommunicator::scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                                 sbp::Reduction reduction) {
  cpu::check_reduction(dtype, reduction);
  if (size() > Parts::most)
    throw Error::fault("", fmt::format("{} devices share GPUs, at most {} can", size(), Parts::most));
  const std::vector<Shown> all = meet(in);
  Parts parts;
  for (const Shown& member : all)
    parts.part[parts.parts++] = at(member.data, before(counts, rank_) * ir::size_of(dtype));
  const auto turn = queue_.turn();
  queue_.use();
  const Combine combine = reduction == sbp::Reduction::sum   ? Combine::sum
                          : reduction == sbp::Reduction::max ? Combine::max
                                                             : Combine::min;
  launch_reduce_parts(parts, out, counts[static_cast<size_t>(rank_)], static_cast<Type>(dtype), combine,
                      queue_.stream());
  check(cudaGetLastError(), "a reduction");
}

void SharedCommunicator::gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) {
  const std::vector<Shown> all = meet(in);
  auto* to = static_cast<std::byte*>(out);
  for (size_t r = 0; r < all.size(); ++r) {
    const int64_t bytes = counts[r] * ir::size_of(dtype);
    copy(to, all[r].data, bytes);
    if (bytes > 0) to += bytes;
  }
}

}  // namespace boxcar::backends::cuda
