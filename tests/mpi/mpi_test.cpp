// Run by mpirun: every process runs the same tests on its own devices, over one transport. With the argument
// "nccl", groups communicate by the fake NCCL library, set up over the transport.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "backends/conformance.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/mpi/mpi_transport.h"
#include "backends/nccl_backend.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

using Bytes = std::vector<std::byte>;

// Messages that arrived on a channel. It answers Channel::request from the progress thread, with the
// requested number of bytes on Channel::data.
class Arrivals {
 public:
  explicit Arrivals(Transport& transport) {
    transport.listen(Channel::bus, [this](int from, std::span<const std::byte> bytes) { add(from, bytes); });
    transport.listen(Channel::data, [this](int from, std::span<const std::byte> bytes) { add(from, bytes); });
    transport.listen(Channel::request, [&transport](int from, std::span<const std::byte> bytes) {
      int64_t size = 0;
      std::memcpy(&size, bytes.data(), sizeof size);
      transport.send(from, Channel::data, Bytes(static_cast<size_t>(size), std::byte{7}));
    });
  }
  // Takes the first `count` messages from a process, waiting for them.
  std::vector<Bytes> take(int from, size_t count) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& arrived = at(arrived_, from);
    changed_.wait(lock, [&] { return arrived.size() >= count; });
    std::vector<Bytes> taken;
    for (; taken.size() < count; arrived.pop_front()) taken.push_back(std::move(arrived.front()));
    return taken;
  }

 private:
  void add(int from, std::span<const std::byte> bytes) {
    std::lock_guard lock(mutex_);
    at(arrived_, from).emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bytes> arrived_[world_devices];
};

class MpiWorld : public World {
 public:
  explicit MpiWorld(bool nccl) : backend_(make(nccl)), arrivals_(transport()) { transport().start(); }
  std::vector<Backend*> backends() override { return {backend_.get()}; }
  Transport& transport() { return *backend_->transport(); }
  Arrivals& arrivals() { return arrivals_; }

 private:
  static std::unique_ptr<Backend> make(bool nccl) {
    if (nccl) return std::make_unique<tests::NcclBackend>(world_devices, make_mpi_transport());
    return cpu::make_cpu_backend(world_devices, make_mpi_transport());
  }

  std::unique_ptr<Backend> backend_;
  Arrivals arrivals_;
};

std::shared_ptr<MpiWorld> the_world;

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         testing::Values(WorldMaker{"OverMpi", [] { return the_world; }}), world_name);

class MpiTransportTest : public testing::Test {
 protected:
  Transport& transport() { return the_world->transport(); }
  int me() { return transport().process(); }
  int processes() { return transport().processes(); }
};

TEST_F(MpiTransportTest, KnowsHowManyProcessesThereAre) {
  EXPECT_TRUE(has_mpi());
  EXPECT_EQ(processes(), started_processes());
}

TEST_F(MpiTransportTest, KeepsTheOrderOfAChannel) {
  constexpr size_t count = 300;
  const auto message = [](int from, size_t i) {
    return Bytes(i * i % 20000, static_cast<std::byte>(from + i));
  };
  for (size_t i = 0; i < count; ++i) {
    for (int p = 0; p < processes(); ++p) transport().send(p, Channel::bus, message(me(), i));
  }
  for (int p = 0; p < processes(); ++p) {
    const std::vector<Bytes> arrived = the_world->arrivals().take(p, count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(arrived[i], message(p, i));
  }
}

// Large messages both ways at once, which MPI does not buffer: from threads and from progress threads.
TEST_F(MpiTransportTest, LargeMessagesCross) {
  constexpr int64_t size = 5'000'000;
  std::vector<std::thread> threads;
  for (int p = 0; p < processes(); ++p) {
    threads.emplace_back([&, p] {
      transport().send(p, Channel::bus, Bytes(size, std::byte{7}));
      transport().send(p, Channel::request, std::as_bytes(std::span(&size, 1)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int p = 0; p < processes(); ++p) {
    for (const Bytes& bytes : the_world->arrivals().take(p, 2)) EXPECT_EQ(bytes, Bytes(size, std::byte{7}));
  }
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(MpiTransportTest, RefusesWhatItCannotDo) {
  const std::byte byte{};
  EXPECT_EQ(error_of([&] {
              transport().send(0, Channel::bus, {&byte, size_t{1} << 31});
            }),
            "mpi: a message of 2147483648 bytes; at most 2147483647 can be sent at once");
  EXPECT_EQ(error_of([&] { transport().listen(Channel::bus, {}); }),
            "transport: one listener per channel, and before start()");
  EXPECT_EQ(error_of([] { make_mpi_transport(); }), "mpi: one transport per process, and there has been one");
}

}  // namespace
}  // namespace boxcar::backends

int main(int argc, char** argv) {
  GTEST_FLAG_SET(brief, true);  // several processes print the same
  testing::InitGoogleTest(&argc, argv);
  boxcar::backends::the_world =
      std::make_shared<boxcar::backends::MpiWorld>(argc > 1 && std::string(argv[1]) == "nccl");
  const int failed = RUN_ALL_TESTS();
  boxcar::backends::the_world->transport().finish();
  boxcar::backends::the_world.reset();
  return failed;
}
