#include "backends/cuda/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "backends/cpu/cpu_reduce.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr std::chrono::milliseconds watching{20};  // between two looks at launched acts
constexpr std::chrono::microseconds asking{100};   // ... and of a call that waits for NCCL to take it
constexpr std::chrono::milliseconds lasting{50};   // a call that waits so long is worth telling of
constexpr int blocks_of_pairs = 8;                 // of sends and receives, which wait beside other kernels
constexpr std::chrono::seconds aborting{15};       // at most, before a process ends without them

// For reductions.
NcclType type_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::float64:
      return nccl_float64;
    case ir::DType::float32:
      return nccl_float32;
    case ir::DType::float16:
      return nccl_float16;
    case ir::DType::bfloat16:
      return nccl_bfloat16;
    case ir::DType::int64:
      return nccl_int64;
    case ir::DType::int32:
      return nccl_int32;
    case ir::DType::int8:
      return nccl_int8;
    default:
      return nccl_uint8;
  }
}

NcclReduction reduction_of(sbp::Reduction reduction) {
  if (reduction == sbp::Reduction::sum) return nccl_sum;
  return reduction == sbp::Reduction::max ? nccl_max : nccl_min;
}

bool even(std::span<const int64_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts[0]; });
}

int64_t non_empty(std::span<const int64_t> counts) {
  return std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; });
}

const std::byte* bytes(const void* address) { return static_cast<const std::byte*>(address); }
std::byte* bytes(void* address) { return static_cast<std::byte*>(address); }

}  // namespace

NcclGroups::NcclGroups(const NcclApi& api, cpu::Waits& waits, cpu::Mailboxes& mailboxes, Transport* transport,
                       double seconds)
    : api_(api),
      waits_(waits),
      mailboxes_(mailboxes),
      transport_(transport),
      patience_(seconds),
      thread_([this] { watch(); }) {}

NcclGroups::~NcclGroups() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
  std::unique_lock lock(aborts_->mutex);
  aborts_->changed.wait_for(lock, aborting, [this] { return aborts_->under_way == 0; });
}

void NcclGroups::abort(ncclComm* comm) {
  {
    const std::lock_guard lock(aborts_->mutex);
    ++aborts_->under_way;
  }
  std::thread([abort = api_.ncclCommAbort, comm, aborts = aborts_] {
    abort(comm);
    const std::lock_guard lock(aborts->mutex);
    --aborts->under_way;
    aborts->changed.notify_all();
  }).detach();
}

std::unique_ptr<Communicator> NcclGroups::communicator(const std::string& name, std::span<const int> devices,
                                                       int device, std::unique_ptr<NcclStream> stream,
                                                       const std::function<int(int)>& process_of) {
  const auto member = std::find(devices.begin(), devices.end(), device);
  if (member == devices.end()) throw Error::fault(name, fmt::format("device {} is no member", device));
  auto communicator = std::make_unique<NcclCommunicator>(
      *this, name, devices, static_cast<int>(member - devices.begin()), std::move(stream), process_of);
  const std::lock_guard lock(mutex_);
  communicators_.push_back(communicator.get());
  return communicator;
}

void NcclGroups::remove(NcclCommunicator* communicator) {
  const std::lock_guard lock(mutex_);
  std::erase(communicators_, communicator);
}

void NcclGroups::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, watching, [this] { return ending_; })) look();
}

void NcclGroups::check() {
  const std::lock_guard lock(mutex_);
  look();
  waits_.check("NCCL");
}

void NcclGroups::look() {
  try {
    waits_.check_with_others("NCCL");
    for (NcclCommunicator* communicator : communicators_) communicator->check();
  } catch (const Error& error) {
    waits_.abort(error.what());
    for (NcclCommunicator* communicator : communicators_) communicator->abort();
  }
}

NcclCommunicator::NcclCommunicator(NcclGroups& groups, std::string name, std::span<const int> devices,
                                   int rank, std::unique_ptr<NcclStream> stream,
                                   const std::function<int(int)>& process_of)
    : groups_(groups),
      name_(std::move(name)),
      devices_(devices.begin(), devices.end()),
      rank_(rank),
      me_(fmt::format("{}: rank {} of {}, device {}", name_, rank, devices.size(), at(devices, rank))),
      stream_(std::move(stream)) {
  for (const int device : devices_) processes_.push_back(process_of(device));
  for (int r = 0, named = 0; r < size() && named < 4; ++r) {
    if (r == rank_) continue;
    const auto i = static_cast<size_t>(r);
    others_ += named++ == 3 ? ", ..."
                            : fmt::format("{}device {} of process {}", others_.empty() ? "" : ", ",
                                          devices_[i], processes_[i]);
  }
}

// Aborted rather than finalized, which would wait for the other members: by now no act is in flight.
NcclCommunicator::~NcclCommunicator() {
  groups_.remove(this);
  abort();
}

void NcclCommunicator::all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                                  sbp::Reduction reduction) {
  cpu::check_reduction(dtype, reduction);
  act("all_reduce", count > 0 ? 1 : 0, [&](void* stream) {
    call(groups_.api_.ncclAllReduce(in, out, static_cast<size_t>(count), type_of(dtype),
                                    reduction_of(reduction), comm_, stream));
  });
}

void NcclCommunicator::reduce_scatter(const void* in, void* out, std::span<const int64_t> counts,
                                      ir::DType dtype, sbp::Reduction reduction) {
  cpu::check_reduction(dtype, reduction);
  check_counts(counts);
  const bool one = even(counts);
  act("reduce_scatter", one ? std::min<int64_t>(counts[0], 1) : non_empty(counts), [&](void* stream) {
    if (one)
      return call(groups_.api_.ncclReduceScatter(in, out, static_cast<size_t>(counts[0]), type_of(dtype),
                                                 reduction_of(reduction), comm_, stream));
    const std::byte* from = bytes(in);
    for (int r = 0; r < size(); ++r) {
      const int64_t count = at(counts, r);
      if (count == 0) continue;
      call(groups_.api_.ncclReduce(from, out, static_cast<size_t>(count), type_of(dtype),
                                   reduction_of(reduction), r, comm_, stream));
      from += count * ir::size_of(dtype);
    }
  });
}

void NcclCommunicator::all_gather(const void* in, void* out, std::span<const int64_t> counts,
                                  ir::DType dtype) {
  check_counts(counts);
  const int64_t size_of = ir::size_of(dtype);
  const bool one = even(counts);
  act("all_gather", one ? std::min<int64_t>(counts[0], 1) : non_empty(counts), [&](void* stream) {
    if (one)
      return call(groups_.api_.ncclAllGather(in, out, static_cast<size_t>(counts[0] * size_of), nccl_uint8,
                                             comm_, stream));
    std::byte* to = bytes(out);
    for (int r = 0; r < size(); ++r) {
      const int64_t part = at(counts, r) * size_of;
      if (part == 0) continue;
      call(groups_.api_.ncclBroadcast(r == rank_ ? in : to, to, static_cast<size_t>(part), nccl_uint8, r,
                                      comm_, stream));
      to += part;
    }
  });
}

void NcclCommunicator::all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                                  std::span<const int64_t> receive_counts, ir::DType dtype) {
  check_counts(send_counts);
  check_counts(receive_counts);
  const int64_t size_of = ir::size_of(dtype);
  act("all_to_all", non_empty(send_counts) + non_empty(receive_counts), [&](void* stream) {
    const std::byte* from = bytes(in);
    std::byte* to = bytes(out);
    for (int r = 0; r < size(); ++r) {
      const int64_t sent = at(send_counts, r) * size_of;
      const int64_t received = at(receive_counts, r) * size_of;
      if (sent > 0)
        call(groups_.api_.ncclSend(from, static_cast<size_t>(sent), nccl_uint8, r, comm_, stream));
      if (received > 0)
        call(groups_.api_.ncclRecv(to, static_cast<size_t>(received), nccl_uint8, r, comm_, stream));
      from += sent > 0 ? sent : 0;
      to += received > 0 ? received : 0;
    }
  });
}

void NcclCommunicator::broadcast(const void* in, void* out, int64_t count, ir::DType dtype) {
  act("broadcast", count > 0 ? 1 : 0, [&](void* stream) {
    call(groups_.api_.ncclBroadcast(rank_ == 0 ? in : out, out,
                                    static_cast<size_t>(count * ir::size_of(dtype)), nccl_uint8, 0, comm_,
                                    stream));
  });
}

void NcclCommunicator::barrier() {
  act("barrier", 1, [&](void* stream) {
    void* const token = stream_->token();
    call(groups_.api_.ncclAllReduce(token, token, 1, nccl_int32, nccl_max, comm_, stream));
  });
}

void NcclCommunicator::connect(bool pairs) {
  barrier();
  if (!pairs) return;
  act("connections", 2 * size(), [&](void* stream) {
    auto* const token = bytes(stream_->token());
    for (int r = 0; r < size(); ++r) {
      call(groups_.api_.ncclSend(token, 1, nccl_uint8, r, comm_, stream));
      call(groups_.api_.ncclRecv(token + 1, 1, nccl_uint8, r, comm_, stream));
    }
  });
}

void NcclCommunicator::send_to(const void* in, int64_t bytes, int to) {
  act(
      "send", bytes > 0 ? 1 : 0,
      [&](void* stream) {
        call(groups_.api_.ncclSend(in, static_cast<size_t>(bytes), nccl_uint8, to, comm_, stream));
      },
      blocks_of_pairs);
}
void NcclCommunicator::receive_from(void* out, int64_t bytes, int from) {
  act(
      "receive", bytes > 0 ? 1 : 0,
      [&](void* stream) {
        call(groups_.api_.ncclRecv(out, static_cast<size_t>(bytes), nccl_uint8, from, comm_, stream));
      },
      blocks_of_pairs);
}

void NcclCommunicator::act(const char* what, int64_t calls, const Body& body, int most_blocks) {
  const std::string named = fmt::format("{} in {}", what, me_);
  const std::string outer = Waiting::here();
  try {
    const Waiting::Act waiting(named);
    void* const stream = stream_->handle();
    set_up(most_blocks);
    if (calls == 0) return;
    const auto turn = stream_->turn();
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) groups_.waits_.check("NCCL");
      if (calls > 1) call(groups_.api_.ncclGroupStart());
      body(stream);
      if (calls > 1) call(groups_.api_.ncclGroupEnd());
    }
    until_taken(named);
    const std::string all = outer.empty() ? named : outer + ": " + named;
    if (stream_->records()) return stream_->note(all);
    const std::lock_guard lock(mutex_);
    forget_done();
    last_ = all;
    launched_.push_back({last_, NcclGroups::Clock::now(), stream_->probe()});
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string full = what.find(me_) == std::string::npos ? named + ": " + what : what;
    groups_.waits_.abort(outer.empty() ? full : outer + ": " + full);
    throw Error(error.code(), "", full);
  }
}

void NcclCommunicator::set_up(int most_blocks) {
  {
    const std::lock_guard lock(mutex_);
    if (comm_ || aborted_) return;
  }
  const NcclId id = draw_id();
  const std::string act = "set-up of " + me_;
  const Waiting::Act waiting(act);
  {
    const std::lock_guard lock(mutex_);
    NcclConfig config;
    config.most_blocks = most_blocks;
    call(groups_.api_.ncclCommInitRankConfig(&comm_, size(), id, rank_, &config));
  }
  until_taken(act);
}

// Rank 0 draws the id; the others, also in this process, get it as a message.
NcclId NcclCommunicator::draw_id() {
  NcclId id{};
  const std::string box = "nccl " + name_;
  if (rank_ > 0) {
    const cpu::Bytes message = groups_.mailboxes_.box(box, 0, rank_).take(groups_.waits_, [&] {
      return fmt::format("device {}, which begins the set-up of {}", devices_[0], name_);
    });
    if (message->size() != sizeof id) throw Error::fault(name_, "the message is no NCCL id");
    std::memcpy(&id, message->data(), sizeof id);
    return id;
  }
  call(groups_.api_.ncclGetUniqueId(&id));
  std::map<int, std::vector<int>> ranks;  // by process
  for (int r = 1; r < size(); ++r) ranks[at(processes_, r)].push_back(r);
  for (const auto& [process, there] : ranks) {
    const std::vector<std::byte> message = cpu::to_message(box, 0, there, std::as_bytes(std::span(&id, 1)));
    if (process == processes_[0])
      groups_.mailboxes_.put(message);
    else
      groups_.transport_->send(process, Channel::control, message);
  }
  return id;
}

// Waits until NCCL has taken its last call.
void NcclCommunicator::until_taken(const std::string& act) {
  const auto begin = NcclGroups::Clock::now();
  std::optional<Waiting::Entry> entry;
  for (;;) {
    NcclResult result = nccl_success;
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) call(groups_.api_.ncclCommGetAsyncError(comm_, &result));
    }
    if (result == nccl_success) break;
    if (result != nccl_in_progress) throw broken(act, result);
    groups_.waits_.check("the other members");
    const auto waited = NcclGroups::Clock::now() - begin;
    if (waited > groups_.patience_) throw late(act);
    if (waited > lasting && !entry && groups_.transport_)
      entry.emplace(groups_.transport_->waiting(), others_);
    std::this_thread::sleep_for(asking);
  }
  groups_.waits_.check("NCCL");
}

void NcclCommunicator::call(NcclResult result) const {
  if (result != nccl_success && result != nccl_in_progress) throw broken(me_, result);
}

Error NcclCommunicator::broken(const std::string& act, NcclResult result) const {
  const char* const last = groups_.api_.ncclGetLastError(nullptr);
  std::string why = groups_.api_.ncclGetErrorString(result);
  if (last && *last) why += fmt::format(" ({})", last);
  return Error::fault(act, fmt::format("NCCL: {}", why));
}

Error NcclCommunicator::late(const std::string& act) const {
  return Error::fault(act,
                      fmt::format("not done after {:g} s: another member has stopped, or was given another "
                                  "order of collectives",
                                  groups_.patience_.count()));
}

void NcclCommunicator::check_counts(std::span<const int64_t> counts) const {
  if (counts.size() != devices_.size())
    throw Error::fault(name_, fmt::format("{} counts for {} members", counts.size(), devices_.size()));
}

void NcclCommunicator::check() {
  const std::lock_guard lock(mutex_);
  if (!comm_ || last_.empty()) return;  // set-up is its own thread's to watch
  NcclResult result = nccl_success;
  call(groups_.api_.ncclCommGetAsyncError(comm_, &result));
  if (result != nccl_success && result != nccl_in_progress) {
    const std::string recorded = stream_->under_way("in " + me_);
    throw broken(!launched_.empty() ? launched_.front().act : recorded.empty() ? last_ : recorded, result);
  }
  forget_done();
  const std::string recorded = launched_.empty() ? stream_->under_way("") : "";
  say(!launched_.empty() ? launched_.front().act : recorded.ends_with("in " + me_) ? recorded : "");
  if (!launched_.empty() && NcclGroups::Clock::now() - launched_.front().at > groups_.patience_)
    throw late(launched_.front().act);
}

// Says that the act waits for the others, if it already did at the last look.
void NcclCommunicator::say(const std::string& act) {
  if (act != lasting_) {
    waits_.reset();
    lasting_ = act;
  } else if (!act.empty() && !waits_ && groups_.transport_) {
    const Waiting::Act name(act);
    waits_.emplace(groups_.transport_->waiting(), others_);
  }
}

// Time runs for the oldest act that is not done, from when it became that.
void NcclCommunicator::forget_done() {
  while (!launched_.empty() && launched_.front().done()) {
    launched_.pop_front();
    if (!launched_.empty()) launched_.front().at = NcclGroups::Clock::now();
  }
}

void NcclCommunicator::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (comm_) groups_.abort(std::exchange(comm_, nullptr));
}

}  // namespace boxcar::backends::cuda
