#include "backends/cuda/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "backends/cpu/cpu_reduce.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr std::chrono::milliseconds watching{20};  // between two looks at launched acts, or at the time
constexpr std::chrono::microseconds asking{100};   // ... and of a call that waits for NCCL to take it
constexpr std::chrono::milliseconds lasting{50};   // a call that waits this long is reported
constexpr std::chrono::seconds aborting{15};       // at most, before a process ends without them
constexpr std::chrono::seconds returning{1};       // a call may, before its communicator is aborted under it
constexpr int most_of_one = 32;                    // multiprocessors that NCCL takes by itself

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

int share_of(int communicators) {
  if (communicators > most_blocks)
    throw Error::cannot_run(
        "NCCL",
        fmt::format("a device is in {} groups, at most {} can be under way on a GPU at once; use fewer "
                    "kinds of parallelism, or fewer stages that exchange tensors",
                    communicators, most_blocks));
  const auto share = static_cast<unsigned>(most_blocks / std::max(communicators, 1));
  return std::min(static_cast<int>(std::bit_floor(share)), most_of_one);
}

int64_t buffer_bytes(int communicators) {
  constexpr int64_t by_block = 40'000'000;
  return communicators > 0 ? by_block * communicators * share_of(communicators) : 0;
}

NcclGroups::NcclGroups(const NcclApi& api, cpu::Waits& waits, cpu::Mailboxes& mailboxes, Transport* transport,
                       double seconds, double leaving)
    : api_(api),
      waits_(waits),
      mailboxes_(mailboxes),
      transport_(transport),
      patience_(seconds),
      leaving_(leaving),
      asks_([this] { ask(); }),
      watches_([this] { watch(); }) {}

NcclGroups::~NcclGroups() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  asks_.join();
  watches_.join();
  std::unique_lock lock(aborts_->mutex);
  aborts_->changed.wait_for(lock, aborting, [this] { return aborts_->in_flight == 0; });
}

std::unique_ptr<Communicator> NcclGroups::communicator(const std::string& name, std::span<const int> devices,
                                                       int device, std::unique_ptr<NcclStream> stream,
                                                       const std::function<int(int)>& process_of) {
  const auto member = std::find(devices.begin(), devices.end(), device);
  if (member == devices.end()) throw Error::fault(name, fmt::format("device {} is no member", device));
  auto communicator = std::make_unique<NcclCommunicator>(
      *this, name, devices, static_cast<int>(member - devices.begin()), std::move(stream), process_of);
  const std::lock_guard lock(mutex_);
  members_.push_back(communicator->watched_);
  return communicator;
}

std::vector<NcclGroups::Member> NcclGroups::members() {
  const std::lock_guard lock(mutex_);
  return members_;
}

void NcclGroups::ask() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, watching, [this] { return ending_; })) {
    lock.unlock();
    try {
      for (const Member& member : members()) look(*member);
    } catch (const Error& error) {
      fail(error);
    }
    lock.lock();
  }
}

void NcclGroups::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, watching, [this] { return ending_; })) {
    lock.unlock();
    try {
      waits_.check_with_others("NCCL");
      for (const Member& member : members()) look_at_time(*member);
    } catch (const Error& error) {
      fail(error);
      leave_if_stuck();
    }
    lock.lock();
  }
}

void NcclGroups::check() {
  try {
    waits_.check_with_others("NCCL");
    for (const Member& member : members()) check(*member);
  } catch (const Error& error) {
    fail(error);
  }
  waits_.check("NCCL");
}

void NcclGroups::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = error.what(), failed_ = Clock::now();
  }
  waits_.abort(error.what());
  for (const Member& member : members()) abort(member);
}

// NCCL allows no other call meanwhile, but one may never return.
void NcclGroups::abort(const Member& member) {
  ncclComm* comm = nullptr;
  {
    const std::lock_guard lock(member->mutex);
    member->aborted = true;
    comm = std::exchange(member->comm, nullptr);
  }
  if (!comm) return;
  {
    const std::lock_guard lock(aborts_->mutex);
    ++aborts_->in_flight;
  }
  std::thread([abort = api_.ncclCommAbort, comm, member, aborts = aborts_] {
    if (member->calls.try_lock_for(returning)) member->calls.unlock();  // others see that it is aborted
    member->choose();
    abort(comm);
    const std::lock_guard lock(aborts->mutex);
    --aborts->in_flight;
    aborts->changed.notify_all();
  }).detach();
}

// A thread in a call cannot be ended, and everyone would wait for it.
void NcclGroups::leave_if_stuck() {
  std::string stuck;
  for (const Member& member : members()) {
    const std::lock_guard lock(member->mutex);
    const bool long_ago = !member->call.empty() && Clock::now() - member->called > leaving_;
    if (long_ago && stuck.empty()) stuck = member->call;
  }
  const std::lock_guard lock(mutex_);
  if (stuck.empty() || Clock::now() - failed_ < leaving_) return;
  const std::string whose = transport_ ? fmt::format("process {}: ", transport_->process()) : "";
  fmt::print(stderr, "boxcar: {}{}; the process ends in the middle of {}, whose call does not return\n",
             whose, why_, stuck);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(Exit::fault));
}

void NcclGroups::look(Watched& member) {
  check(member);
  member.choose();
  forget_done(member);
  const std::lock_guard lock(member.mutex);
  if (!member.stream || member.last.empty()) return;
  const std::string recorded = member.launched.empty() ? member.stream->act_in_flight("") : "";
  say(member, !member.launched.empty()                ? member.launched.front().act
              : recorded.ends_with("in " + member.me) ? recorded
                                                      : "");
}

void NcclGroups::look_at_time(Watched& member) const {
  const std::lock_guard lock(member.mutex);
  const auto now = Clock::now();
  if (!member.call.empty() && now - member.called > patience_)
    throw Error::fault(member.call,
                       fmt::format("its call has not returned after {:g} s: NCCL or CUDA is stuck "
                                   "in it, perhaps since another member has stopped",
                                   patience_.count()));
  if (!member.launched.empty() && now - member.launched.front().at > patience_)
    throw late(member.launched.front().act);
}

// Looks for an error that NCCL has found; later if the communicator's own thread is in a call.
void NcclGroups::check(Watched& member) {
  const std::unique_lock calls(member.calls, std::try_to_lock);
  if (!calls.owns_lock()) return;
  ncclComm* comm = nullptr;
  {
    const std::lock_guard lock(member.mutex);
    if (!member.comm || member.last.empty()) return;  // set-up is its own thread's to watch
    comm = member.comm;
  }
  NcclResult result = nccl_success;
  call(member, api_.ncclCommGetAsyncError(comm, &result));
  if (result == nccl_success || result == nccl_in_progress) return;
  forget_done(member);  // those are not what failed
  const std::lock_guard lock(member.mutex);
  const std::string recorded = member.stream ? member.stream->act_in_flight("in " + member.me) : "";
  throw broken(!member.launched.empty() ? member.launched.front().act
               : recorded.empty()       ? member.last
                                        : recorded,
               result);
}

void NcclGroups::call(const Watched& member, NcclResult result) const {
  if (result != nccl_success && result != nccl_in_progress) throw broken(member.me, result);
}

Error NcclGroups::broken(const std::string& act, NcclResult result) const {
  const char* const last = api_.ncclGetLastError(nullptr);
  std::string why = api_.ncclGetErrorString(result);
  if (last && *last) why += fmt::format(" ({})", last);
  return Error::fault(act, fmt::format("NCCL: {}", why));
}

Error NcclGroups::late(const std::string& act) const {
  return Error::fault(act,
                      fmt::format("not done after {:g} s: another member has stopped, or was given another "
                                  "order of collectives",
                                  patience_.count()));
}

// Says that the act waits for the others, if it already did at the last look.
void NcclGroups::say(Watched& member, const std::string& act) const {
  if (act != member.lasting) {
    member.waits.reset();
    member.lasting = act;
  } else if (!act.empty() && !member.waits && transport_) {
    const Waiting::Act name(act);
    member.waits.emplace(transport_->waiting(), member.others);
  }
}

// The time limit is for the oldest act that is not done, from when it became the oldest.
void NcclGroups::forget_done(Watched& member) {
  for (;;) {
    std::function<bool()> done;
    int64_t number = 0;
    {
      const std::lock_guard lock(member.mutex);
      if (member.launched.empty()) return;
      done = member.launched.front().done;
      number = member.launched.front().number;
    }
    if (!done()) return;
    const std::lock_guard lock(member.mutex);
    if (member.launched.empty() || member.launched.front().number != number) continue;
    member.launched.pop_front();
    if (!member.launched.empty()) member.launched.front().at = Clock::now();
  }
}

NcclCommunicator::NcclCommunicator(NcclGroups& groups, std::string name, std::span<const int> devices,
                                   int rank, std::unique_ptr<NcclStream> stream,
                                   const std::function<int(int)>& process_of)
    : groups_(groups),
      name_(std::move(name)),
      devices_(devices.begin(), devices.end()),
      rank_(rank),
      stream_(std::move(stream)),
      watched_(std::make_shared<NcclGroups::Watched>()) {
  for (const int device : devices_) processes_.push_back(process_of(device));
  NcclGroups::Watched& watched = *watched_;
  watched.me = fmt::format("{}: rank {} of {}, device {}", name_, rank, devices.size(), at(devices, rank));
  watched.stream = stream_.get();
  watched.choose = stream_->chooser();
  for (int r = 0, named = 0; r < size() && named < 4; ++r) {
    if (r == rank_) continue;
    const auto i = static_cast<size_t>(r);
    watched.others += named++ == 3
                          ? ", ..."
                          : fmt::format("{}device {} of process {}", watched.others.empty() ? "" : ", ",
                                        devices_[i], processes_[i]);
  }
}

// Aborted rather than finalized, which would wait for the other members: by now no act is in flight.
NcclCommunicator::~NcclCommunicator() {
  {
    const std::lock_guard lock(groups_.mutex_);
    std::erase(groups_.members_, watched_);
  }
  {
    const std::lock_guard lock(watched_->mutex);
    watched_->stream = nullptr;
    watched_->waits.reset();
    watched_->launched.clear();
  }
  groups_.abort(watched_);
}

void NcclCommunicator::all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                                  sbp::Reduction reduction) {
  cpu::check_reduction(dtype, reduction);
  act("all_reduce", count > 0 ? 1 : 0, [&](ncclComm* comm, void* stream) {
    call(groups_.api_.ncclAllReduce(in, out, static_cast<size_t>(count), type_of(dtype),
                                    reduction_of(reduction), comm, stream));
  });
}

void NcclCommunicator::reduce_scatter(const void* in, void* out, std::span<const int64_t> counts,
                                      ir::DType dtype, sbp::Reduction reduction) {
  cpu::check_reduction(dtype, reduction);
  check_counts(counts);
  const bool one = even(counts);
  act("reduce_scatter", one ? std::min<int64_t>(counts[0], 1) : non_empty(counts),
      [&](ncclComm* comm, void* stream) {
        if (one)
          return call(groups_.api_.ncclReduceScatter(in, out, static_cast<size_t>(counts[0]), type_of(dtype),
                                                     reduction_of(reduction), comm, stream));
        const std::byte* from = bytes(in);
        for (int r = 0; r < size(); ++r) {
          const int64_t count = at(counts, r);
          if (count == 0) continue;
          call(groups_.api_.ncclReduce(from, out, static_cast<size_t>(count), type_of(dtype),
                                       reduction_of(reduction), r, comm, stream));
          from += count * ir::size_of(dtype);
        }
      });
}

void NcclCommunicator::all_gather(const void* in, void* out, std::span<const int64_t> counts,
                                  ir::DType dtype) {
  check_counts(counts);
  const int64_t size_of = ir::size_of(dtype);
  const bool one = even(counts);
  act("all_gather", one ? std::min<int64_t>(counts[0], 1) : non_empty(counts),
      [&](ncclComm* comm, void* stream) {
        if (one)
          return call(groups_.api_.ncclAllGather(in, out, static_cast<size_t>(counts[0] * size_of),
                                                 nccl_uint8, comm, stream));
        std::byte* to = bytes(out);
        for (int r = 0; r < size(); ++r) {
          const int64_t part = at(counts, r) * size_of;
          if (part == 0) continue;
          call(groups_.api_.ncclBroadcast(r == rank_ ? in : to, to, static_cast<size_t>(part), nccl_uint8, r,
                                          comm, stream));
          to += part;
        }
      });
}

void NcclCommunicator::all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                                  std::span<const int64_t> receive_counts, ir::DType dtype) {
  check_counts(send_counts);
  check_counts(receive_counts);
  const int64_t size_of = ir::size_of(dtype);
  act("all_to_all", non_empty(send_counts) + non_empty(receive_counts), [&](ncclComm* comm, void* stream) {
    const std::byte* from = bytes(in);
    std::byte* to = bytes(out);
    for (int r = 0; r < size(); ++r) {
      const int64_t sent = at(send_counts, r) * size_of;
      const int64_t received = at(receive_counts, r) * size_of;
      if (sent > 0) call(groups_.api_.ncclSend(from, static_cast<size_t>(sent), nccl_uint8, r, comm, stream));
      if (received > 0)
        call(groups_.api_.ncclRecv(to, static_cast<size_t>(received), nccl_uint8, r, comm, stream));
      from += sent > 0 ? sent : 0;
      to += received > 0 ? received : 0;
    }
  });
}

void NcclCommunicator::broadcast(const void* in, void* out, int64_t count, ir::DType dtype) {
  act("broadcast", count > 0 ? 1 : 0, [&](ncclComm* comm, void* stream) {
    call(groups_.api_.ncclBroadcast(rank_ == 0 ? in : out, out,
                                    static_cast<size_t>(count * ir::size_of(dtype)), nccl_uint8, 0, comm,
                                    stream));
  });
}

void NcclCommunicator::barrier() {
  act("barrier", 1, [&](ncclComm* comm, void* stream) {
    void* const token = stream_->token();
    call(groups_.api_.ncclAllReduce(token, token, 1, nccl_int32, nccl_max, comm, stream));
  });
}

void NcclCommunicator::connect(bool pairs) {
  barrier();
  if (!pairs) return;
  act("connections", 2 * size(), [&](ncclComm* comm, void* stream) {
    auto* const token = bytes(stream_->token());
    for (int r = 0; r < size(); ++r) {
      call(groups_.api_.ncclSend(token, 1, nccl_uint8, r, comm, stream));
      call(groups_.api_.ncclRecv(token + 1, 1, nccl_uint8, r, comm, stream));
    }
  });
}

void NcclCommunicator::send_to(const void* in, int64_t bytes, int to) {
  act("send", bytes > 0 ? 1 : 0, [&](ncclComm* comm, void* stream) {
    call(groups_.api_.ncclSend(in, static_cast<size_t>(bytes), nccl_uint8, to, comm, stream));
  });
}
void NcclCommunicator::receive_from(void* out, int64_t bytes, int from) {
  act("receive", bytes > 0 ? 1 : 0, [&](ncclComm* comm, void* stream) {
    call(groups_.api_.ncclRecv(out, static_cast<size_t>(bytes), nccl_uint8, from, comm, stream));
  });
}

void NcclCommunicator::act(const char* what, int64_t calls, const Body& body) {
  const std::string named = fmt::format("{} in {}", what, watched_->me);
  const std::string outer = Waiting::here();
  const std::string all = outer.empty() ? named : outer + ": " + named;
  try {
    const Waiting::Act waiting(named);
    void* stream = nullptr;
    calling(all, [&] { stream = stream_->handle(); });
    set_up();
    if (calls == 0) return;
    const auto turn = stream_->turn();
    calling(all, [&] {
      const std::lock_guard lock(watched_->calls);
      ncclComm* const comm = this->comm();
      if (stream_->records()) stream_->follow();
      if (calls > 1) call(groups_.api_.ncclGroupStart());
      body(comm, stream);
      if (calls > 1) call(groups_.api_.ncclGroupEnd());
    });
    until_taken(named, all);
    calling(all, [&] { launched(all); });
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string full = what.find(watched_->me) == std::string::npos ? named + ": " + what : what;
    groups_.waits_.abort(outer.empty() ? full : outer + ": " + full);
    throw Error(error.code(), "", full);
  }
}

void NcclCommunicator::calling(const std::string& act, const std::function<void()>& calls) {
  const auto note = [this](const std::string& call) {
    const std::lock_guard lock(watched_->mutex);
    watched_->call = call;
    watched_->called = NcclGroups::Clock::now();
  };
  note(act);
  try {
    calls();
  } catch (...) {
    note("");
    throw;
  }
  note("");
}

// The communicator; throws Error (fault) if it has been aborted.
ncclComm* NcclCommunicator::comm() const {
  {
    const std::lock_guard lock(watched_->mutex);
    if (!watched_->aborted) return watched_->comm;
  }
  groups_.waits_.check("NCCL");
  throw Error::fault(watched_->me, "the group has ended");
}

// An act is on the stream.
void NcclCommunicator::launched(const std::string& act) {
  if (stream_->records()) return stream_->note(act);
  NcclGroups::forget_done(*watched_);
  const std::function<bool()> done = stream_->probe();
  const std::lock_guard lock(watched_->mutex);
  watched_->last = act;
  watched_->launched.push_back({act, NcclGroups::Clock::now(), done, ++watched_->acts});
}

void NcclCommunicator::set_up() {
  {
    const std::lock_guard lock(watched_->mutex);
    if (watched_->comm || watched_->aborted) return;
  }
  const NcclId id = draw_id();
  const std::string act = "set-up of " + watched_->me;
  const Waiting::Act waiting(act);
  calling(act, [&] {
    const std::lock_guard calls(watched_->calls);
    NcclConfig config;
    config.most_blocks = groups_.blocks_;
    ncclComm* made = nullptr;
    const NcclResult result = groups_.api_.ncclCommInitRankConfig(&made, size(), id, rank_, &config);
    {
      const std::lock_guard lock(watched_->mutex);
      watched_->comm = made;
    }
    call(result);
  });
  until_taken(act, act);
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

// Waits until NCCL has taken its last call, of `act`; `all` names it for the watching thread.
void NcclCommunicator::until_taken(const std::string& act, const std::string& all) {
  const auto begin = NcclGroups::Clock::now();
  std::optional<Waiting::Entry> entry;
  for (;;) {
    NcclResult result = nccl_success;
    calling(all, [&] {
      const std::lock_guard lock(watched_->calls);
      call(groups_.api_.ncclCommGetAsyncError(comm(), &result));
    });
    if (result == nccl_success) break;
    if (result != nccl_in_progress) throw groups_.broken(act, result);
    groups_.waits_.check("the other members");
    const auto waited = NcclGroups::Clock::now() - begin;
    if (waited > groups_.patience_) throw groups_.late(act);
    if (waited > lasting && !entry && groups_.transport_)
      entry.emplace(groups_.transport_->waiting(), watched_->others);
    std::this_thread::sleep_for(asking);
  }
  groups_.waits_.check("NCCL");
}

void NcclCommunicator::check_counts(std::span<const int64_t> counts) const {
  if (counts.size() != devices_.size())
    throw Error::fault(name_, fmt::format("{} counts for {} members", counts.size(), devices_.size()));
}

}  // namespace boxcar::backends::cuda
