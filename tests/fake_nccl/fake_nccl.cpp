// A library with the part of NCCL's C interface that Boxcar uses, between threads and processes of one
// machine. They meet on a board (board.h) named by a communicator's unique id; stream.h has the streams. It
// is strict in cases in which NCCL hangs or leaves the outcome open:
//
// - a communicator that is used before its set-up has ended, or while a call is in progress: invalid usage;
// - two threads in one communicator at once: invalid usage;
// - members that were set up for different numbers of ranks, make different calls or another order,
//   capture different calls, or launch calls together that were not captured together: an asynchronous
//   error; likewise a receive that does not match its send.
//
// A send reads its memory when the receive has begun, and ends when that has ended.
//
// An act has multiprocessors from its begin to its end: as many as the communicator's configuration allows,
// at most 32. Sends and receives have the next power of two.
//
// After ncclCommAbort has returned, no act of that member reads or writes its memory. It waits until no graph
// contains such an act.
#include "fake_nccl/fake_nccl.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl/board.h"
#include "fake_nccl/stream.h"

namespace {

using fake_nccl::Board;
using fake_nccl::Kept;

enum Result { success = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5, in_progress = 7 };
struct Id {
  char bytes[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking, cluster, least_blocks, most_blocks;
  const char* net;
  int split;
};

enum class Kind { all_reduce, reduce_scatter, reduce, all_gather, broadcast, send, receive };
constexpr const char* names[] = {"all_reduce", "reduce_scatter", "reduce", "all_gather",
                                 "broadcast",  "send",           "receive"};

struct Primitive {
  Kind kind = Kind::send;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0, reduction = 0, peer = 0;
  int64_t captured = 0;  // its number among the communicator's captures; 0: not captured

  bool joint() const { return kind != Kind::send && kind != Kind::receive; }
  // Number of elements that a member of rank `rank` among `members` reads at `in`.
  size_t reads(int rank, int members) const {
    if (kind == Kind::receive || (kind == Kind::broadcast && rank != peer)) return 0;
    return kind == Kind::reduce_scatter ? count * static_cast<size_t>(members) : count;
  }
  std::string text() const {
    return std::string(names[static_cast<int>(kind)]) + " of " + std::to_string(count) + " of type " +
           std::to_string(type) + ", reduction " + std::to_string(reduction) + ", root " +
           std::to_string(peer) + (captured > 0 ? ", capture " + std::to_string(captured) : "");
  }
};

size_t size_of(int type) {
  constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

struct World {
  std::mutex mutex;
  std::atomic<int> live = 0, calls = 0, batches = 0, most_blocks = 0, early = 0;
  int stopped_rank = -1, stopped_act = -1, stopped_with = 0, stopped_set_up = -1;
  int stuck_rank = -1, stuck_act = -1;
  std::atomic<bool> stuck_for_ever = false;
  std::string last_error;

  void complain(const std::string& what) {
    const std::lock_guard lock(mutex);
    last_error = what;
  }
};

World& world() {
  static World world;
  return world;
}

}  // namespace

// NCCL's own name, which its interface shows.
struct ncclComm {
  ncclComm(const std::string& folder, int rank, int size, int blocks)
      : board(folder),
        rank(rank),
        size(size),
        blocks(blocks),
        sent(static_cast<size_t>(size)),
        received(sent),
        sends(sent),
        receives(sent) {}

  const Board board;
  const int rank, size, blocks;
  std::atomic<int> error = success, joined = 0;  // ranks below `joined` have joined
  std::atomic<int> busy = 2;                     // polls until the call is accepted
  std::atomic<bool> aborted = false, inside = false;
  std::mutex mutex;  // guards its acts and its abort
  int acts = 0;
  int launched = 0;
  int64_t rounds = 0, captures = 0;
  std::vector<int64_t> sent, received;                      // by peer
  std::vector<int64_t> sends, receives;                     // the same, as they are launched
  std::shared_ptr<char> graphs = std::make_shared<char>();  // which captured acts hold
};

namespace {

using Shared = std::shared_ptr<ncclComm>;

// Those that are there; acts in flight keep theirs.
std::map<ncclComm*, Shared>& communicators() {
  static std::map<ncclComm*, Shared> all;
  return all;
}
Shared find(ncclComm* comm) {
  const std::lock_guard lock(world().mutex);
  const auto found = communicators().find(comm);
  return found == communicators().end() ? nullptr : found->second;
}

// Records an asynchronous error, which the caller polls for.
void fail(ncclComm& comm, const std::string& why) {
  world().complain("rank " + std::to_string(comm.rank) + " " + why);
  comm.error = invalid_usage;
}

std::string joined(int rank) { return "joined." + std::to_string(rank); }
std::string left(int rank) { return "left." + std::to_string(rank); }

bool ready(ncclComm& comm) {
  if (world().stopped_set_up == comm.rank) return false;
  while (comm.joined < comm.size) {
    const auto size = comm.board.find(joined(comm.joined));
    if (!size) return false;
    if (*size != std::to_string(comm.size))
      fail(comm, "is set up for " + std::to_string(comm.size) + " ranks, another one for " + *size);
    ++comm.joined;
  }
  return true;
}

// Publishes a member's input when the member arrives: it may be aborted, and its memory freed, while the
// others still meet.
std::string_view read(const ncclComm& comm, const Primitive& mine) {
  return {static_cast<const char*>(mine.in), mine.reads(comm.rank, comm.size) * size_of(mine.type)};
}

// One joint call: each member's call and data.
struct Part {
  std::string call, input;
};
using Round = std::vector<Part>;

template <typename T, typename Wide>
void reduce_as(const std::vector<const char*>& parts, size_t count, int reduction, char* out) {
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, parts[0] + i * sizeof(T), sizeof(T));
    Wide value = static_cast<Wide>(element);
    for (size_t p = 1; p < parts.size(); ++p) {
      std::memcpy(&element, parts[p] + i * sizeof(T), sizeof(T));
      const Wide other = static_cast<Wide>(element);
      value = reduction == 0   ? static_cast<Wide>(value + other)
              : reduction == 2 ? std::max(value, other)
                               : std::min(value, other);
    }
    element = static_cast<T>(value);
    std::memcpy(out + i * sizeof(T), &element, sizeof(T));
  }
}

// `count` elements from element `first` of every member's input.
std::string reduced(const Round& round, const Primitive& one, size_t first, size_t count) {
  std::vector<const char*> parts;
  for (const Part& part : round) parts.push_back(part.input.data() + first * size_of(one.type));
  std::string out(count * size_of(one.type), 0);
  const auto as = [&]<typename T, typename Wide>() {
    reduce_as<T, Wide>(parts, count, one.reduction, out.data());
  };
  switch (one.type) {
    case 0:
      as.operator()<int8_t, int64_t>();
      break;
    case 1:
      as.operator()<uint8_t, int64_t>();
      break;
    case 2:
      as.operator()<int32_t, int64_t>();
      break;
    case 4:
      as.operator()<int64_t, int64_t>();
      break;
    case 6:
      as.operator()<Eigen::half, float>();
      break;
    case 7:
      as.operator()<float, float>();
      break;
    case 8:
      as.operator()<double, double>();
      break;
    case 9:
      as.operator()<Eigen::bfloat16, float>();
      break;
    default:
      world().complain("type " + std::to_string(one.type));
  }
  return out;
}

std::string result(const Round& round, const Primitive& mine, int rank) {
  switch (mine.kind) {
    case Kind::all_reduce:
      return reduced(round, mine, 0, mine.count);
    case Kind::reduce_scatter:
      return reduced(round, mine, mine.count * static_cast<size_t>(rank), mine.count);
    case Kind::reduce:
      return rank == mine.peer ? reduced(round, mine, 0, mine.count) : "";
    case Kind::broadcast:
      return round[static_cast<size_t>(mine.peer)].input;
    default: {
      std::string all;
      for (const Part& part : round) all += part.input;
      return all;
    }
  }
}

// One group of calls, or one call, in flight: those before `next` are done.
struct Turn {
  bool stops = false;
  size_t next = 0;
  int64_t number = 0;                 // of the joint call in flight
  Round round;                        // the first members to arrive
  std::vector<int64_t> numbers = {};  // of its sends and receives, by peer; as long as the batch
};

// The following require the communicator's lock and that it is not aborted. False: not yet, or never.

std::string name_of(int64_t round, int rank) {
  return "round." + std::to_string(round) + "." + std::to_string(rank);
}

// All members meet, and each writes when all are here. By then all have read the previous round's data.
bool meet(ncclComm& comm, const Primitive& mine, Turn& turn) {
  if (turn.number == 0) {
    turn.number = ++comm.rounds;
    const std::string call = mine.text() + '\0';
    comm.board.put(name_of(turn.number, comm.rank), call + std::string(read(comm, mine)));
  }
  while (turn.round.size() < static_cast<size_t>(comm.size)) {
    const auto part = comm.board.find(name_of(turn.number, static_cast<int>(turn.round.size())));
    if (!part) return false;
    const size_t call = part->find('\0');
    turn.round.push_back({part->substr(0, call), part->substr(call + 1)});
  }
  for (size_t r = 0; r < turn.round.size(); ++r)
    if (turn.round[r].call != mine.text()) {
      fail(comm, "calls " + mine.text() + "; rank " + std::to_string(r) + " " + turn.round[r].call);
      return false;
    }
  const std::string bytes = result(turn.round, mine, comm.rank);
  if (!bytes.empty()) std::memcpy(mine.out, bytes.data(), bytes.size());
  comm.board.remove(name_of(turn.number - 1, comm.rank));
  turn.number = 0;
  turn.round.clear();
  return true;
}

std::string name_of(const char* what, int from, int to, int64_t number) {
  return std::string(what) + "." + std::to_string(from) + "." + std::to_string(to) + "." +
         std::to_string(number);
}
// Both ends must agree on this text.
std::string transfer(const Primitive& one) {
  return std::to_string(one.count * size_of(one.type)) + " bytes" +
         (one.captured > 0 ? ", capture " + std::to_string(one.captured) : "");
}

void wish(ncclComm& comm, const Primitive& mine, Turn& turn) {
  const auto peer = static_cast<size_t>(mine.peer);
  if (mine.joint()) return turn.numbers.push_back(0);
  turn.numbers.push_back(mine.kind == Kind::receive ? comm.received[peer]++ : comm.sent[peer]++);
  if (mine.kind == Kind::receive)
    comm.board.put(name_of("wished", mine.peer, comm.rank, turn.numbers.back()), transfer(mine));
}

bool send(ncclComm& comm, const Primitive& mine, int64_t number) {
  const auto wished = comm.board.find(name_of("wished", comm.rank, mine.peer, number));
  if (!wished) return false;
  if (*wished != transfer(mine)) {
    fail(comm, "sends " + transfer(mine) + "; rank " + std::to_string(mine.peer) + " receives " + *wished);
    return false;
  }
  comm.board.put(name_of("sent", comm.rank, mine.peer, number), std::string(read(comm, mine)));
  return true;
}

bool receive(ncclComm& comm, const Primitive& mine, int64_t number) {
  const auto bytes = comm.board.find(name_of("sent", mine.peer, comm.rank, number));
  if (!bytes) return false;
  std::memcpy(mine.out, bytes->data(), bytes->size());
  comm.board.remove(name_of("wished", mine.peer, comm.rank, number));
  comm.board.remove(name_of("sent", mine.peer, comm.rank, number));
  return true;
}

bool passes(ncclComm& comm, const std::vector<Primitive>& batch, Turn& turn) {
  const Primitive& mine = batch[turn.next];
  if (mine.joint()) return meet(comm, mine, turn);
  const int64_t number = turn.numbers[turn.next];
  return mine.kind == Kind::receive ? receive(comm, mine, number) : send(comm, mine, number);
}

bool was_received(const ncclComm& comm, const std::vector<Primitive>& batch, const Turn& turn) {
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i].kind == Kind::send &&
        comm.board.find(name_of("sent", comm.rank, batch[i].peer, turn.numbers[i])))
      return false;
  return true;
}

// Whether a batch is over: it has passed, or its communicator is aborted.
bool over(ncclComm& comm, const std::vector<Primitive>& batch, Turn& turn) {
  const std::lock_guard lock(comm.mutex);
  if (comm.aborted) return true;
  if (turn.stops || comm.error != success) return false;
  while (turn.numbers.size() < batch.size()) wish(comm, batch[turn.numbers.size()], turn);
  while (turn.next < batch.size() && passes(comm, batch, turn)) ++turn.next;
  return turn.next == batch.size() && was_received(comm, batch, turn);
}

Kept begin(ncclComm& comm) {
  const World& w = world();
  Turn turn;
  turn.stops = w.stopped_rank == comm.rank && w.stopped_act == comm.acts++;
  if (turn.stops && w.stopped_with != 0) comm.error = w.stopped_with;
  return std::make_shared<Turn>(turn);
}

// A send outside a group leaves word for its receive.
void tell_launched(ncclComm& comm, const std::vector<Primitive>& batch) {
  const Primitive& one = batch[0];
  if (batch.size() > 1 || one.joint()) return;
  const auto peer = static_cast<size_t>(one.peer);
  if (one.kind == Kind::send)
    return comm.board.put(name_of("launched", comm.rank, one.peer, comm.sends[peer]++), "");
  const std::string word = name_of("launched", one.peer, comm.rank, comm.receives[peer]++);
  if (!comm.board.find(word)) ++world().early;
  comm.board.remove(word);
}

// One group of calls, or one call, put on a stream: sends first, receives last.
void launch(const Shared& comm, std::vector<Primitive> batch, void* stream) {
  World& w = world();
  w.calls += static_cast<int>(batch.size());
  if (batch.size() > 1) ++w.batches;
  comm->busy = 2;
  std::stable_sort(batch.begin(), batch.end(), [](const Primitive& a, const Primitive& b) {
    const auto place = [](const Primitive& p) { return p.joint() ? 1 : p.kind == Kind::send ? 0 : 2; };
    return place(a) < place(b);
  });
  const bool captured = fake_nccl::captures(stream);
  if (captured) ++comm->captures;
  for (Primitive& p : batch) p.captured = captured ? comm->captures : 0;
  if (!captured) tell_launched(*comm, batch);
  const std::shared_ptr<char> graph = captured ? comm->graphs : nullptr;
  const auto blocks = static_cast<unsigned>(comm->blocks);
  const bool joint = std::all_of(batch.begin(), batch.end(), [](const Primitive& p) { return p.joint(); });
  const auto act = [comm, graph, batch = std::move(batch)](Kept& kept) {
    if (!kept) kept = begin(*comm);
    return over(*comm, batch, *static_cast<Turn*>(kept.get()));
  };
  fake_nccl::put(stream, act, static_cast<int>(joint ? blocks : std::bit_ceil(blocks)));
  const bool sticks = comm->rank == w.stuck_rank && comm->launched++ == w.stuck_act;
  while (sticks && (w.stuck_for_ever || !comm->aborted))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Calls of a thread since ncclGroupStart.
struct Pending {
  int depth = 0;
  Shared comm;
  void* stream = nullptr;
  std::vector<Primitive> batch;
};
thread_local Pending pending;

int refuse(const std::string& why) {
  world().complain(why);
  return invalid_usage;
}

int call(ncclComm* handle, void* stream, const Primitive& primitive) {
  const Shared comm = find(handle);
  if (!comm || comm->aborted) return refuse("a communicator that is not there");
  if (comm->inside.exchange(true)) return refuse("two threads in one communicator");
  const struct Leave {
    ncclComm& comm;
    ~Leave() { comm.inside = false; }
  } leave{*comm};
  if (!ready(*comm)) return refuse("a call before the set-up has ended");
  if (comm->busy > 0) return refuse("a call while another is in progress");
  if (primitive.count == 0) return refuse("a call of no elements");
  if (pending.depth == 0) {
    launch(comm, {primitive}, stream);
    return in_progress;
  }
  if (pending.comm && (pending.comm != comm || pending.stream != stream))
    return refuse("a group over two communicators or streams");
  pending.comm = comm;
  pending.stream = stream;
  pending.batch.push_back(primitive);
  return success;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return success;
}
const char* ncclGetErrorString(int result) {
  switch (result) {
    case success:
      return "no error";
    case invalid_usage:
      return "invalid usage";
    case 6:
      return "remote process exited or there was a network error";
    default:
      return "unhandled error";
  }
}
const char* ncclGetLastError(ncclComm*) {
  static thread_local std::string text;
  const std::lock_guard lock(world().mutex);
  text = world().last_error;
  return text.c_str();
}
int ncclGetUniqueId(Id* id) {
  *id = {};
  const std::string folder = fake_nccl::new_folder();
  if (folder.empty() || folder.size() >= sizeof id->bytes) {
    world().complain("no folder of a short name for a board");
    return system_error;
  }
  std::memcpy(id->bytes, folder.data(), folder.size());
  return success;
}
int ncclCommInitRankConfig(ncclComm** comm, int ranks, Id id, int rank, Config* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return refuse("a configuration that blocks");
  if (config->size != sizeof *config || config->version != 21800 || config->net ||
      std::array{config->cluster, config->least_blocks, config->split} !=
          std::array{INT_MIN, INT_MIN, INT_MIN})
    return refuse("a configuration of another version");
  constexpr int most = 32;  // that NCCL takes by itself
  const int blocks = config->most_blocks == INT_MIN ? most : config->most_blocks;
  if (blocks < 1) return invalid_argument;
  fake_nccl::touch();
  if (rank < 0 || rank >= ranks || id.bytes[0] != '/' || id.bytes[sizeof id.bytes - 1] != 0)
    return invalid_argument;
  const auto made = std::make_shared<ncclComm>(id.bytes, rank, ranks, std::min(blocks, most));
  int before = world().most_blocks;
  while (before < made->blocks && !world().most_blocks.compare_exchange_weak(before, made->blocks)) {
  }
  {
    const std::lock_guard lock(world().mutex);
    communicators()[made.get()] = made;
    *comm = made.get();
  }
  ++world().live;
  made->board.put(joined(rank), std::to_string(ranks));
  return in_progress;
}
int ncclCommGetAsyncError(ncclComm* handle, int* result) {
  const Shared comm = find(handle);
  if (!comm) return refuse("a communicator that is not there");
  const bool is_ready = ready(*comm);
  *result = comm->error;
  if (*result == success && (!is_ready || comm->busy > 0)) {
    if (is_ready) --comm->busy;
    *result = in_progress;
  }
  return success;
}
int ncclCommAbort(ncclComm* handle) {
  const Shared comm = find(handle);
  if (!comm) return refuse("a communicator that is not there");
  {
    const std::lock_guard lock(comm->mutex);
    comm->aborted = true;
  }
  fake_nccl::touch();
  while (comm->graphs.use_count() > 1) std::this_thread::sleep_for(std::chrono::microseconds(50));
  comm->board.put(left(comm->rank), "");
  bool all = true;
  for (int r = 0; r < comm->size && all; ++r)
    all = !comm->board.find(joined(r)) || comm->board.find(left(r)).has_value();
  if (all) comm->board.clear();
  --world().live;
  const std::lock_guard lock(world().mutex);
  communicators().erase(handle);
  return success;
}
int ncclGroupStart() {
  ++pending.depth;
  return success;
}
int ncclGroupEnd() {
  if (--pending.depth > 0) return success;
  Pending done = std::exchange(pending, {});
  if (!done.comm) return success;
  launch(done.comm, std::move(done.batch), done.stream);
  return in_progress;
}
int ncclAllReduce(const void* in, void* out, size_t count, int type, int reduction, ncclComm* comm,
                  void* stream) {
  return call(comm, stream, {Kind::all_reduce, in, out, count, type, reduction});
}
int ncclReduceScatter(const void* in, void* out, size_t count, int type, int reduction, ncclComm* comm,
                      void* stream) {
  return call(comm, stream, {Kind::reduce_scatter, in, out, count, type, reduction});
}
int ncclReduce(const void* in, void* out, size_t count, int type, int reduction, int root, ncclComm* comm,
               void* stream) {
  return call(comm, stream, {Kind::reduce, in, out, count, type, reduction, root});
}
int ncclAllGather(const void* in, void* out, size_t count, int type, ncclComm* comm, void* stream) {
  return call(comm, stream, {Kind::all_gather, in, out, count, type});
}
int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, ncclComm* comm, void* stream) {
  return call(comm, stream, {Kind::broadcast, in, out, count, type, 0, root});
}
int ncclSend(const void* from, size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return call(comm, stream, {Kind::send, from, nullptr, count, type, 0, peer});
}
int ncclRecv(void* to, size_t count, int type, int peer, ncclComm* comm, void* stream) {
  return call(comm, stream, {Kind::receive, nullptr, to, count, type, 0, peer});
}

void fakeNcclReset() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.calls = w.batches = w.most_blocks = w.early = 0;
  w.stopped_rank = w.stopped_act = w.stopped_set_up = w.stuck_rank = w.stuck_act = -1;
  w.stuck_for_ever = false;
  w.stopped_with = 0;
  w.last_error.clear();
}
int fakeNcclLive() { return world().live; }
int fakeNcclCalls() { return world().calls; }
int fakeNcclGroups() { return world().batches; }
int fakeNcclEarly() { return world().early; }
int fakeNcclMostBlocks() { return world().most_blocks; }
void fakeNcclStop(int rank, int act, int result) {
  world().stopped_rank = rank, world().stopped_act = act, world().stopped_with = result;
}
void fakeNcclStick(int rank, int act, bool for_ever) {
  world().stuck_rank = rank, world().stuck_act = act, world().stuck_for_ever = for_ever;
}
void fakeNcclStopSetUp(int rank) { world().stopped_set_up = rank; }
}
