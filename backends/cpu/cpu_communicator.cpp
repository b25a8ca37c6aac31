#include "backends/cpu/cpu_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu_reduce.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

constexpr std::byte token{};

// memmove, since bytes may lie in place; moves nothing from a null pointer.
void move_bytes(std::byte* to, Slice from) {
  if (from.bytes > 0 && to != from.data) std::memmove(to, from.data, static_cast<size_t>(from.bytes));
}

// Consecutive slices of `data`, counts elements each.
std::vector<Slice> cut(const void* data, std::span<const int64_t> counts, ir::DType dtype) {
  std::vector<Slice> slices;
  const auto* begin = static_cast<const std::byte*>(data);
  for (int64_t count : counts) {
    const int64_t bytes = count * ir::size_of(dtype);
    slices.push_back({begin, bytes});
    if (bytes > 0) begin += bytes;
  }
  return slices;
}

std::vector<int64_t> bytes_of(std::span<const int64_t> counts, ir::DType dtype) {
  std::vector<int64_t> bytes;
  for (int64_t count : counts) bytes.push_back(count * ir::size_of(dtype));
  return bytes;
}

// Writes the ranks' slices one after the other.
void put_together(std::span<const Slice> from, void* out) {
  auto* to = static_cast<std::byte*>(out);
  for (const Slice& slice : from) {
    move_bytes(to, slice);
    if (slice.bytes > 0) to += slice.bytes;
  }
}

}  // namespace

CpuCommunicator::CpuCommunicator(std::string name, std::shared_ptr<Meeting> meeting, int rank,
                                 const Links& links)
    : name_(std::move(name)),
      meeting_(std::move(meeting)),
      rank_(rank),
      waits_(links.waits),
      transport_(links.transport),
      seat_(meeting_->seats[static_cast<size_t>(rank)]) {
  const int here = links.process(meeting_->devices[static_cast<size_t>(rank)]);
  for (int r = 0; r < static_cast<int>(meeting_->devices.size()); ++r) {
    const int device = meeting_->devices[static_cast<size_t>(r)], process = links.process(device);
    if (process == here) {
      members_.push_back({device, process, &meeting_->seats[static_cast<size_t>(r)], nullptr});
      continue;
    }
    members_.push_back({device, process, nullptr, &links.mailboxes.box(name_, r, rank_)});
    auto found = std::find_if(processes_.begin(), processes_.end(),
                              [&](const Process& other) { return other.id == process; });
    if (found == processes_.end()) found = processes_.insert(found, {process, {}});
    found->ranks.push_back(r);
  }
}

void CpuCommunicator::all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                                 sbp::Reduction reduction) {
  act("all_reduce", [&] {
    std::vector<int64_t> counts;
    int64_t begin = 0;
    for (int r = 0; r < size(); ++r) {
      const sbp::Range part = sbp::part_range(count, size(), r);
      counts.push_back(part.size());
      if (r == rank_) begin = part.begin;
    }
    // In place, part r of this member's tensor is read by member r alone, and written here only after that
    // member has posted it reduced.
    auto* mine = static_cast<std::byte*>(out);
    if (begin > 0) mine += begin * ir::size_of(dtype);
    scatter(in, mine, counts, dtype, reduction);
    gather(mine, out, counts, dtype);
  });
}

void CpuCommunicator::reduce_scatter(const void* in, void* out, std::span<const int64_t> counts,
                                     ir::DType dtype, sbp::Reduction reduction) {
  act("reduce_scatter", [&] { scatter(in, out, counts, dtype, reduction); });
}

void CpuCommunicator::all_gather(const void* in, void* out, std::span<const int64_t> counts,
                                 ir::DType dtype) {
  act("all_gather", [&] { gather(in, out, counts, dtype); });
}

void CpuCommunicator::all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                                 std::span<const int64_t> receive_counts, ir::DType dtype) {
  act("all_to_all", [&] {
    check_counts(send_counts);
    check_counts(receive_counts);
    exchange(cut(in, send_counts, dtype), bytes_of(receive_counts, dtype),
             [&](std::span<const Slice> from) { put_together(from, out); });
  });
}

void CpuCommunicator::broadcast(const void* in, void* out, int64_t count, ir::DType dtype) {
  act("broadcast", [&] {
    const int64_t bytes = count * ir::size_of(dtype);
    const Slice whole = rank_ == 0 ? Slice{static_cast<const std::byte*>(in), bytes} : Slice{};
    std::vector<int64_t> expected(members_.size());
    expected[0] = bytes;
    exchange(std::vector<Slice>(members_.size(), whole), expected,
             [&](std::span<const Slice> from) { put_together(from.first(1), out); });
  });
}

void CpuCommunicator::barrier() {
  act("barrier", [&] {
    exchange(std::vector<Slice>(members_.size(), {&token, 1}), std::vector<int64_t>(members_.size(), 1),
             [](std::span<const Slice>) {});
  });
}

void CpuCommunicator::scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                              sbp::Reduction reduction) {
  check_counts(counts);
  check_reduction(dtype, reduction);
  const int64_t count = counts[static_cast<size_t>(rank_)];
  const std::vector<int64_t> expected(members_.size(), count * ir::size_of(dtype));
  exchange(cut(in, counts, dtype), expected, [&](std::span<const Slice> from) {
    std::vector<const void*> parts;
    for (const Slice& slice : from) parts.push_back(slice.data);
    reduce(parts, out, count, dtype, reduction);
  });
}

void CpuCommunicator::gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) {
  check_counts(counts);
  const std::vector<int64_t> expected = bytes_of(counts, dtype);
  const Slice mine{static_cast<const std::byte*>(in), expected[static_cast<size_t>(rank_)]};
  exchange(std::vector<Slice>(members_.size(), mine), expected,
           [&](std::span<const Slice> from) { put_together(from, out); });
}

void CpuCommunicator::check_counts(std::span<const int64_t> counts) const {
  if (counts.size() == members_.size()) return;
  throw Error::fault("", fmt::format("{} counts for {} members", counts.size(), members_.size()));
}

void CpuCommunicator::act(const char* what, const std::function<void()>& body) {
  const std::string name = fmt::format("{} in {}", what, name_);
  try {
    const Waiting::Act act(name);
    body();
    wait_until_read();
  } catch (const Error& error) {
    const Error named = Error::fault(name, error.what());
    const std::string outer = Waiting::here();
    waits_.abort(outer + (outer.empty() ? "" : ": ") + named.what());
    throw named;
  }
}

void CpuCommunicator::exchange(std::span<const Slice> give, std::span<const int64_t> expected,
                               const Take& take) {
  seat_.post(give);
  const int64_t turn = seat_.turn();
  for (size_t r = 0; r < give.size(); ++r) {
    if (give[r].bytes > 0) members_[r].given = turn;
  }
  send(give);
  std::vector<Slice> taken(members_.size());
  std::vector<Bytes> kept(members_.size());
  for (size_t r = 0; r < members_.size(); ++r) {
    if (expected[r] == 0) continue;
    taken[r] = receive(r, turn, kept[r]);
    if (taken[r].bytes != expected[r]) {
      throw Error::fault("", fmt::format("device {} gave {} bytes where {} were expected; all members call "
                                         "the same functions in the same order",
                                         members_[r].device, taken[r].bytes, expected[r]));
    }
  }
  take(taken);
  seat_.say_done();
}

// One message per process and distinct slice, to all consecutive ranks there that get it.
void CpuCommunicator::send(std::span<const Slice> give) {
  for (const Process& process : processes_) {
    for (size_t i = 0, end = 0; i < process.ranks.size(); i = end) {
      const auto slice = [&](size_t at) { return give[static_cast<size_t>(process.ranks[at])]; };
      const Slice one = slice(i);
      for (end = i + 1; end < process.ranks.size(); ++end) {
        if (slice(end).data != one.data || slice(end).bytes != one.bytes) break;
      }
      if (one.bytes == 0) continue;
      transport_->send(process.id, Channel::control,
                       to_message(name_, rank_, std::span(process.ranks).subspan(i, end - i),
                                  {one.data, static_cast<size_t>(one.bytes)}));
    }
  }
}

Slice CpuCommunicator::receive(size_t rank, int64_t turn, Bytes& keep) {
  const Member& from = members_[rank];
  const auto named = [&] { return whom(rank); };
  if (from.box) {
    keep = from.box->take(waits_, named);
    return {keep->data(), static_cast<int64_t>(keep->size())};
  }
  from.seat->wait_posted(turn, waits_, named);
  return from.seat->slice(turn, rank_);
}

void CpuCommunicator::wait_until_read() {
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].seat) members_[r].seat->wait_done(members_[r].given, waits_, [&] { return whom(r); });
  }
}

std::string CpuCommunicator::whom(size_t rank) const {
  const Member& member = members_[rank];
  if (member.seat) return fmt::format("device {}", member.device);
  return fmt::format("device {} of process {}", member.device, member.process);
}

}  // namespace boxcar::backends::cpu
