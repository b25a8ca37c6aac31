#include "backends/conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "backends/cpu/convert.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t sizes[] = {0, 1, 2, 7, 64, 1003};
constexpr int64_t large = 1003;  // loops of vectors, and a rest that fills none
constexpr ir::DType types[] = {ir::DType::float64,  ir::DType::float32, ir::DType::float16,
                               ir::DType::bfloat16, ir::DType::float8,  ir::DType::int64,
                               ir::DType::int32,    ir::DType::int8,    ir::DType::boolean};
constexpr sbp::Reduction reductions[] = {sbp::Reduction::sum, sbp::Reduction::max, sbp::Reduction::min};

// A device's memory: `area` bytes for the input, and for the output, of each member that uses it at once.
constexpr int64_t area = 1 << 18;
constexpr int users = 3;
constexpr int64_t guard = 64;
constexpr std::byte untouched{0xa5};

bool reduces(ir::DType type, sbp::Reduction reduction) {
  if (type == ir::DType::boolean) return reduction != sbp::Reduction::sum;
  return type != ir::DType::float8;
}

struct Reducing {
  ir::DType type;
  sbp::Reduction reduction;
  int64_t size;
};

// Every type and reduction at the largest size, and every size with one type of each width: between processes
// a call takes milliseconds.
std::vector<Reducing> reducings() {
  std::vector<Reducing> all;
  for (const ir::DType type : types)
    for (const sbp::Reduction reduction : reductions)
      if (reduces(type, reduction)) all.push_back({type, reduction, large});
  for (const ir::DType type : {ir::DType::float64, ir::DType::float32, ir::DType::bfloat16, ir::DType::int8})
    for (const int64_t size : sizes)
      if (size != large) all.push_back({type, sbp::Reduction::sum, size});
  return all;
}

// The value of this rank's member at `index`, which every process can compute. Small whole numbers: their
// sums are exact in every type but float8, in any order.
double number(ir::DType type, int rank, int64_t index, int64_t call) {
  const int64_t mixed = (rank * 7919 + index * 104729 + call * 1299709) % 1009;
  return static_cast<double>(type == ir::DType::boolean ? mixed % 2 : mixed % 31 - 15);
}

Bytes stored(ir::DType type, const std::vector<double>& values) {
  const ir::TensorType tensor{{static_cast<int64_t>(values.size())}, type};
  Bytes bytes(static_cast<size_t>(tensor.bytes()));
  cpu::store({tensor, values}, bytes.data());
  return bytes;
}

Bytes numbers(ir::DType type, int rank, int64_t begin, int64_t count, int64_t call) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(number(type, rank, begin + i, call));
  return stored(type, values);
}

Bytes reduced(ir::DType type, sbp::Reduction reduction, int ranks, int64_t begin, int64_t count,
              int64_t call) {
  std::vector<double> values;
  for (int64_t i = begin; i < begin + count; ++i) {
    double value = number(type, 0, i, call);
    for (int r = 1; r < ranks; ++r) {
      const double other = number(type, r, i, call);
      if (reduction == sbp::Reduction::sum) value += other;
      if (reduction == sbp::Reduction::max) value = std::max(value, other);
      if (reduction == sbp::Reduction::min) value = std::min(value, other);
    }
    values.push_back(value);
  }
  return stored(type, values);
}

// Arbitrary bytes, for data that moves without being read as numbers.
Bytes anything(int from, int to, int64_t bytes, int64_t call) {
  Bytes result(static_cast<size_t>(bytes));
  uint64_t state = static_cast<uint64_t>(from * 64 + to + call * 4096);
  for (std::byte& b : result) b = static_cast<std::byte>(state = mix(state));
  return result;
}

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// One member's memory on its device: its input, and its output with nothing written beyond it.
class Memory {
 public:
  explicit Memory(Device& device, int user = 0) : device_(device), in_(device.arena() + 2 * area * user) {}

  void* in(const Bytes& bytes) {
    device_.from_host(in_, bytes.data(), static_cast<int64_t>(bytes.size()));
    return in_;
  }
  void* out(int64_t bytes) {
    const Bytes blank(static_cast<size_t>(bytes + guard), untouched);
    device_.from_host(in_ + area, blank.data(), bytes + guard);
    return in_ + area;
  }
  // The output holds these bytes, and nothing is written behind them.
  void expect(const Bytes& bytes) {
    Bytes found(bytes.size() + guard);
    device_.to_host(found.data(), in_ + area, static_cast<int64_t>(found.size()));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), found.begin()));
    EXPECT_EQ(std::count(found.end() - guard, found.end(), untouched), guard);
  }
  void expect_in(const Bytes& bytes) {
    Bytes found(bytes.size());
    device_.to_host(found.data(), in_, static_cast<int64_t>(found.size()));
    EXPECT_EQ(found, bytes);
  }

 private:
  Device& device_;
  std::byte* in_;
};

// Ways to deal about `size` elements to members: in balanced parts, and unevenly with holes.
std::vector<std::vector<int64_t>> deals(int64_t size, int members) {
  std::vector<std::vector<int64_t>> result(2);
  for (int r = 0; r < members; ++r) {
    result[0].push_back(sbp::part_range(size, members, r).size());
    result[1].push_back(r % 3 == 1 ? 0 : 2 * size / (members + r));
  }
  return result;
}

// A device whose memory the host sees only when a queue has finished.
class SeenBehind : public Device {
 public:
  SeenBehind(Device& device, Queue& queue) : device_(device), queue_(queue) {}
  void reserve(int64_t bytes) override { device_.reserve(bytes); }
  std::byte* arena() override { return device_.arena(); }
  std::unique_ptr<Queue> queue(ir::QueueKind kind) override { return device_.queue(kind); }
  std::unique_ptr<Kernel> prepare(const Call& call, Queue& queue) override {
    return device_.prepare(call, queue);
  }
  void to_host(void* to, const void* from, int64_t bytes) override {
    queue_.finish();
    device_.to_host(to, from, bytes);
  }
  void from_host(void* to, const void* from, int64_t bytes) override {
    queue_.finish();
    device_.from_host(to, from, bytes);
  }

 private:
  Device& device_;
  Queue& queue_;
};

std::string name_of(ir::DType type, int64_t size, int members) {
  return std::string(ir::to_text(type)) + "[" + std::to_string(size) + "] of " + std::to_string(members);
}

// Small whole numbers through a collective chosen by `call`, with a known result.
void any_collective(Communicator& c, Memory& memory, int64_t call) {
  const auto type = ir::DType::float32;
  const int64_t count = call * 37 % 129;
  const int n = c.size();
  if (call % 3 == 0) {
    c.all_reduce(memory.in(numbers(type, c.rank(), 0, count, call)), memory.out(count * 4), count, type,
                 sbp::Reduction::sum);
    memory.expect(reduced(type, sbp::Reduction::sum, n, 0, count, call));
  } else if (call % 3 == 1) {
    c.broadcast(memory.in(numbers(type, c.rank(), 0, count, call)), memory.out(count * 4), count, type);
    memory.expect(numbers(type, 0, 0, count, call));
  } else {
    Bytes whole;
    for (int r = 0; r < n; ++r) append(whole, numbers(type, r, 0, count, call));
    c.all_gather(memory.in(numbers(type, c.rank(), 0, count, call)), memory.out(count * 4 * n),
                 std::vector<int64_t>(static_cast<size_t>(n), count), type);
    memory.expect(whole);
  }
}

}  // namespace

void Conformance::SetUp() {
  try {
    world_ = GetParam().make();
  } catch (const Unavailable& unavailable) {
    GTEST_SKIP() << unavailable.why;
  }
  for (Backend* backend : world_->backends()) {
    ASSERT_EQ(backend->devices(), world_devices);
    for (int d = 0; d < world_devices; ++d) {
      if (!backend->is_local(d) || backend->device(d).arena()) continue;
      Device& device = backend->device(d);
      device.reserve(2 * area * users);
      Bytes bytes(static_cast<size_t>(2 * area * users), untouched);
      device.to_host(bytes.data(), device.arena(), static_cast<int64_t>(bytes.size()));
      EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), 2 * area * users);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(device.arena()) % 512, 0u);
    }
  }
}

void Conformance::meet(const std::string& name, std::span<const int> group, const Body& body) {
  std::vector<std::thread> threads;
  for (Backend* backend : world_->backends()) {
    for (int d : group) {
      if (!backend->is_local(d)) continue;
      threads.emplace_back([&, backend, d] {
        try {
          const auto queue = backend->device(d).queue(ir::QueueKind::network);
          const auto communicator = backend->communicator(name, group, d, *queue);
          SeenBehind device(backend->device(d), *queue);
          body(*communicator, device);
          queue->finish();
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
          backend->abort(error.what());
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::vector<int>> Conformance::groups() {
  std::vector<std::vector<int>> result;
  for (int n = 1; n <= world_devices; ++n) {
    std::vector<int> first, spread, drawn(world_devices);
    for (int i = 0; i < n; ++i) {
      first.push_back(i);
      spread.push_back(world_devices - 1 - i * world_devices / n);
    }
    std::iota(drawn.begin(), drawn.end(), 0);
    std::shuffle(drawn.begin(), drawn.end(), std::mt19937(static_cast<unsigned>(n)));
    drawn.resize(static_cast<size_t>(n));
    result.insert(result.end(), {first, spread, drawn});
  }
  return result;
}

namespace {

// Groups in use at once need different names, and processes are not always in the same test.
std::string fresh_name() {
  static int count = 0;
  return "group" + std::to_string(count++);
}

TEST_P(Conformance, AllReduce) {
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      int64_t call = 0;
      for (const auto& [type, reduction, size] : reducings()) {
        SCOPED_TRACE(name_of(type, size, c.size()));
        const Bytes mine = numbers(type, c.rank(), 0, size, ++call);
        const Bytes all = reduced(type, reduction, c.size(), 0, size, call);
        c.all_reduce(memory.in(mine), memory.out(size * ir::size_of(type)), size, type, reduction);
        memory.expect(all);
        memory.expect_in(mine);
        void* place = memory.in(mine);
        c.all_reduce(place, place, size, type, reduction);
        memory.expect_in(all);
      }
    });
  }
}

TEST_P(Conformance, ReduceScatter) {
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      int64_t call = 0;
      for (const auto& [type, reduction, size] : reducings()) {
        for (const std::vector<int64_t>& counts : deals(size, c.size())) {
          SCOPED_TRACE(name_of(type, size, c.size()));
          const auto mine = counts.begin() + c.rank();
          const int64_t begin = std::accumulate(counts.begin(), mine, int64_t{0});
          const int64_t total = std::accumulate(mine, counts.end(), begin);
          c.reduce_scatter(memory.in(numbers(type, c.rank(), 0, total, ++call)),
                           memory.out(*mine * ir::size_of(type)), counts, type, reduction);
          memory.expect(reduced(type, reduction, c.size(), begin, *mine, call));
        }
      }
    });
  }
}

TEST_P(Conformance, AllGather) {
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      int64_t call = 0;
      for (ir::DType type : types) {
        for (int64_t size : sizes) {
          for (const std::vector<int64_t>& counts : deals(size, c.size())) {
            SCOPED_TRACE(name_of(type, size, c.size()));
            ++call;
            Bytes all, mine;
            for (int r = 0; r < c.size(); ++r) {
              const Bytes part = anything(r, 0, at(counts, r) * ir::size_of(type), call);
              append(all, part);
              if (r == c.rank()) mine = part;
            }
            c.all_gather(memory.in(mine), memory.out(static_cast<int64_t>(all.size())), counts, type);
            memory.expect(all);
          }
        }
      }
    });
  }
}

TEST_P(Conformance, AllToAll) {
  const auto count = [](int from, int to, int64_t size) { return size * ((3 * from + 5 * to) % 4) / 3; };
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [&](Communicator& c, Device& device) {
      Memory memory(device);
      int64_t call = 0;
      for (ir::DType type : types) {
        for (int64_t size : sizes) {
          SCOPED_TRACE(name_of(type, size, c.size()));
          ++call;
          std::vector<int64_t> send, receive;
          Bytes in, out;
          for (int r = 0; r < c.size(); ++r) {
            send.push_back(count(c.rank(), r, size));
            receive.push_back(count(r, c.rank(), size));
            append(in, anything(c.rank(), r, send.back() * ir::size_of(type), call));
            append(out, anything(r, c.rank(), receive.back() * ir::size_of(type), call));
          }
          c.all_to_all(memory.in(in), send, memory.out(static_cast<int64_t>(out.size())), receive, type);
          memory.expect(out);
        }
      }
    });
  }
}

TEST_P(Conformance, Broadcast) {
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      int64_t call = 0;
      for (ir::DType type : types) {
        for (int64_t size : sizes) {
          SCOPED_TRACE(name_of(type, size, c.size()));
          const int64_t bytes = size * ir::size_of(type);
          const Bytes root = anything(0, 0, bytes, ++call), mine = anything(c.rank(), 0, bytes, call);
          c.broadcast(memory.in(mine), memory.out(bytes), size, type);
          memory.expect(root);
          void* place = memory.in(mine);
          c.broadcast(place, place, size, type);
          memory.expect_in(root);
          c.broadcast(c.rank() == 0 ? memory.in(mine) : nullptr, memory.out(bytes), size, type);
          memory.expect(root);
        }
      }
    });
  }
}

// From the first member to the last. Other backends leave pulls to the transport.
TEST_P(Conformance, SendsAreReceivedInTheirOrder) {
  if (!world_->backends()[0]->sends()) return;
  for (const std::vector<int>& group : groups()) {
    if (group.size() == 1) continue;
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      c.barrier();
      int64_t call = 0;
      for (const int64_t bytes : {1, 0, 5, 4096, 3}) {
        const Bytes sent = anything(0, 1, bytes, ++call);
        if (c.rank() == 0) c.send_to(memory.in(sent), bytes, c.size() - 1);
        if (c.rank() != c.size() - 1) continue;
        c.receive_from(memory.out(bytes), bytes, 0);
        memory.expect(sent);
      }
    });
  }
}

TEST_P(Conformance, NobodyLeavesABarrierBeforeAllHaveCome) {
  for (const std::vector<int>& group : groups()) {
    int64_t here = 0;
    for (Backend* backend : world_->backends()) {
      here += std::count_if(group.begin(), group.end(), [&](int d) { return backend->is_local(d); });
    }
    std::atomic<int64_t> came = 0;
    meet(fresh_name(), group, [&](Communicator& c, Device& device) {
      for (int64_t round = 1; round <= 20; ++round) {
        ++came;
        c.barrier();
        device.to_host(nullptr, device.arena(), 0);  // until it is done
        EXPECT_GE(came, here * round);
        EXPECT_LE(came, here * (round + 1));
      }
    });
  }
}

// Inputs are overwritten right after a call, while other members may be far behind.
TEST_P(Conformance, CallsFollowEachOtherWithoutABarrier) {
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      for (int64_t call = 0; call < 60; ++call) any_collective(c, memory, call);
    });
  }
}

// Each has its own threads; the second has the members in another order, the third some of them.
TEST_P(Conformance, SeveralCommunicatorsAtOnce) {
  const std::vector<int> all[users] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 2, 5, 0, 3, 6, 1, 4}, {1, 3, 6}};
  std::vector<std::thread> threads;
  for (int user = 0; user < users; ++user) {
    threads.emplace_back([&, user, name = fresh_name()] {
      meet(name, all[user], [&](Communicator& c, Device& device) {
        Memory memory(device, user);
        for (int64_t call = 0; call < 60; ++call) any_collective(c, memory, call + user);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Fractions, whose sums depend on the order of their terms.
TEST_P(Conformance, MembersAgreeToTheBit) {
  static constexpr int64_t count = 1000;
  for (const std::vector<int>& group : groups()) {
    meet(fresh_name(), group, [](Communicator& c, Device& device) {
      Memory memory(device);
      for (ir::DType type :
           {ir::DType::float64, ir::DType::float32, ir::DType::float16, ir::DType::bfloat16}) {
        std::mt19937 random(static_cast<unsigned>(c.rank()));
        std::vector<double> values;
        for (int64_t i = 0; i < count; ++i) {
          values.push_back(std::uniform_real_distribution(-1.0, 1.0)(random));
        }
        void* place = memory.in(stored(type, values));
        c.all_reduce(place, place, count, type, sbp::Reduction::sum);
        const int64_t bytes = count * ir::size_of(type);
        Bytes mine(static_cast<size_t>(bytes)), all;
        device.to_host(mine.data(), place, bytes);
        for (int r = 0; r < c.size(); ++r) append(all, mine);
        c.all_gather(place, memory.out(bytes * c.size()),
                     std::vector<int64_t>(static_cast<size_t>(c.size()), count), type);
        memory.expect(all);
      }
    });
  }
}

TEST_P(Conformance, DevicesAreDealtInEvenBlocks) {
  for (Backend* backend : world_->backends()) {
    const int processes = backend->transport() ? backend->transport()->processes() : 1;
    for (int d = 0; d < world_devices; ++d) {
      EXPECT_EQ(backend->process_of(d), d * processes / world_devices);
      EXPECT_EQ(backend->is_local(d),
                !backend->transport() || backend->process_of(d) == backend->transport()->process());
    }
  }
}

TEST_P(Conformance, MemoryIsReservedOnce) {
  Backend& backend = *world_->backends()[0];
  for (int d = 0; d < world_devices; ++d) {
    if (backend.is_local(d)) {
      EXPECT_THROW(backend.device(d).reserve(1), Error);
    }
  }
}

// Strided blocks within a device, between two devices, and from and to the host.
TEST_P(Conformance, QueuesCopyBlocks) {
  const Block blocks[] = {{0, 8, 8, 8},  {1, 1, 1, 1},  {5, 0, 3, 3},     {3, 7, 7, 7},
                          {4, 5, 11, 5}, {4, 5, 5, 11}, {64, 12, 100, 40}};
  Backend& backend = *world_->backends()[0];
  std::vector<int> local;
  for (int d = 0; d < world_devices; ++d) {
    if (backend.is_local(d)) local.push_back(d);
  }
  Device& a = backend.device(local.front());
  Device& b = backend.device(local.back());
  const auto queue = a.queue(ir::QueueKind::copy_in);
  for (const Block& block : blocks) {
    const int64_t from_bytes = block.rows * std::max(block.from_stride, block.bytes);
    const int64_t to_bytes = block.rows * std::max(block.to_stride, block.bytes);
    const Bytes source = anything(1, 2, from_bytes, block.rows);
    Bytes expected(static_cast<size_t>(to_bytes + guard), untouched);
    for (int64_t row = 0; row < block.rows; ++row) {
      std::copy_n(source.begin() + row * block.from_stride, block.bytes,
                  expected.begin() + row * block.to_stride);
    }
    expected.resize(static_cast<size_t>(to_bytes));
    for (Device* to : {&a, &b}) {
      Memory from_memory(a), to_memory(*to, 1);
      const void* from = from_memory.in(source);
      queue->copy(to_memory.out(to_bytes), from, block);
      queue->finish();
      to_memory.expect(expected);
      queue->copy(to_memory.out(to_bytes), source.data(), block);
      queue->finish();
      to_memory.expect(expected);
    }
    Bytes host(static_cast<size_t>(to_bytes), untouched);
    queue->copy(host.data(), Memory(a).in(source), block);
    queue->finish();
    EXPECT_EQ(host, expected);
  }
}

TEST_P(Conformance, QueuesFillWithZeros) {
  Backend& backend = *world_->backends()[0];
  for (int d = 0; d < world_devices; ++d) {
    if (!backend.is_local(d)) continue;
    const auto queue = backend.device(d).queue(ir::QueueKind::compute);
    for (int64_t bytes : sizes) {
      Memory memory(backend.device(d));
      queue->fill_zero(memory.out(bytes), bytes);
      queue->finish();
      memory.expect(Bytes(static_cast<size_t>(bytes)));
    }
  }
}

}  // namespace
}  // namespace boxcar::backends
