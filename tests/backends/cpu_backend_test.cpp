// How groups end in an error, and their messages. Results are tested in conformance.cpp.
#include "backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "backends/cpu/mailboxes.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "support/fake_transport.h"

namespace boxcar::backends::cpu {
namespace {

using Backends = std::vector<std::unique_ptr<Backend>>;

std::string backend_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Backends over(const support::FakeNetwork& network, int processes, int devices) {
  Backends backends;
  for (int p = 0; p < processes; ++p) {
    backends.push_back(make_cpu_backend(devices, network.transport(p)));
    backends.back()->transport()->start();
  }
  return backends;
}

// Devices 0 to n - 1 meet in "all", each on its own thread; returns each one's error.
std::vector<std::string> meet(const Backends& backends,
                              const std::function<void(Communicator& all, Backend& backend)>& body) {
  std::vector<int> group;
  for (int d = 0; d < backends[0]->devices(); ++d) group.push_back(d);
  std::vector<std::string> errors(group.size());
  std::vector<std::thread> threads;
  for (const auto& backend : backends) {
    for (int d : group) {
      if (!backend->is_local(d)) continue;
      threads.emplace_back([&, d, backend = backend.get()] {
        const auto queue = backend->device(d).queue(ir::QueueKind::network);
        const auto all = backend->communicator("all", group, d, *queue);
        at(errors, d) = backend_error([&] { body(*all, *backend); });
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

Backends single(int devices) {
  Backends backends;
  backends.push_back(make_cpu_backend(devices));
  return backends;
}

TEST(CpuBackend, RefusesTooFewDevices) {
  EXPECT_EQ(backend_error([] { make_cpu_backend(0); }), "devices: 0 is less than 1");
  const support::FakeNetwork network(3, 1);
  EXPECT_EQ(backend_error([&] { make_cpu_backend(2, network.transport(0)); }),
            "devices: 2 for 3 processes; start at most 2");
}

TEST(CpuBackend, RefusesGroupsThatCannotBe) {
  const auto backend = make_cpu_backend(4);
  const auto queue = backend->device(0).queue(ir::QueueKind::network);
  const std::vector<int> group = {0, 1}, other = {1, 0};
  EXPECT_EQ(backend_error([&] { backend->communicator("dp.0", group, 2, *queue); }),
            "dp.0: device 2 is no member in this process");
  auto first = backend->communicator("dp.0", group, 0, *queue);
  EXPECT_EQ(backend_error([&] { backend->communicator("dp.0", other, 1, *queue); }),
            "dp.0: two groups of this name are in use at once");
  first.reset();
  EXPECT_EQ(backend->communicator("dp.0", other, 1, *queue)->rank(), 0);
}

TEST(CpuBackend, AMemberThatCallsOtherwiseEndsTheRun) {
  const std::vector<float> in(8);
  const auto errors = meet(single(2), [&](Communicator& all, Backend&) {
    std::vector<float> out(8);
    all.all_reduce(in.data(), out.data(), all.rank() == 0 ? 8 : 6, ir::DType::float32, sbp::Reduction::sum);
    all.barrier();
  });
  const std::string advice = "; all members call the same functions in the same order";
  EXPECT_EQ(errors[0], "all_reduce in all: device 1 gave 12 bytes where 16 were expected" + advice);
  EXPECT_EQ(errors[1], "all_reduce in all: device 0 gave 16 bytes where 12 were expected" + advice);
}

TEST(CpuBackend, MembersSayWhatTheyCannotDo) {
  const float in[2] = {};
  float out[2] = {};
  const std::vector<int64_t> counts = {1};
  EXPECT_EQ(meet(single(1),
                 [&](Communicator& all, Backend&) {
                   all.all_reduce(in, out, 2, ir::DType::float8, sbp::Reduction::sum);
                 })[0],
            "all_reduce in all: there is no sum of float8");
  EXPECT_EQ(meet(single(2),
                 [&](Communicator& all, Backend&) {
                   if (all.rank() == 0) all.all_gather(in, out, counts, ir::DType::float32);
                 })[0],
            "all_gather in all: 1 counts for 2 members");
}

TEST(CpuBackend, AbortEndsWaitsAndNamesTheFirstReason) {
  const auto errors = meet(single(3), [](Communicator& all, Backend& backend) {
    if (all.rank() == 2) {
      backend.abort("device 2: out of range");
      backend.abort("device 2: later");
      return;
    }
    all.barrier();
  });
  for (size_t d : {0u, 1u}) {
    EXPECT_EQ(errors[d].substr(0, 32), "barrier in all: waits for device");
    EXPECT_EQ(errors[d].substr(34), ": device 2: out of range");
  }
}

// Fractions, whose sum depends on the order of its terms, but not on where the members are.
TEST(CpuBackend, SumsAreTakenInTheOrderOfRanks) {
  constexpr int members = 6;
  constexpr int64_t count = 1000;
  std::vector<std::vector<float>> in(members, std::vector<float>(count));
  std::mt19937 random(3);
  for (auto& part : in) {
    for (float& x : part) x = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  std::vector<float> expected = in[0];
  for (size_t r = 1; r < members; ++r) {
    for (size_t i = 0; i < count; ++i) expected[i] += in[r][i];
  }
  for (int processes : {1, 2, 3}) {
    const support::FakeNetwork network(processes, 5);
    const auto errors = meet(over(network, processes, members), [&](Communicator& all, Backend&) {
      std::vector<float> data = at(in, all.rank());
      all.all_reduce(data.data(), data.data(), count, ir::DType::float32, sbp::Reduction::sum);
      EXPECT_EQ(data, expected);
    });
    EXPECT_EQ(errors, std::vector<std::string>(members));
  }
}

// The other processes' errors name the failed act.
TEST(CpuBackend, AFailedCallEndsOtherProcesses) {
  const support::FakeNetwork network(2, 1);
  const auto errors = meet(over(network, 2, 2), [](Communicator& all, Backend&) {
    if (all.rank() == 1) {
      const Waiting::Act act("device 1: h0.all_reduce");
      all.all_reduce(nullptr, nullptr, 0, ir::DType::float8, sbp::Reduction::sum);
    }
    all.barrier();
  });
  EXPECT_EQ(errors[0],
            "barrier in all: waits for device 1 of process 1: process 1 failed: device 1: h0.all_reduce: "
            "all_reduce in all: there is no sum of float8");
  EXPECT_EQ(errors[1], "all_reduce in all: there is no sum of float8");
}

TEST(CpuBackend, ASilentProcessEndsWaits) {
  support::FakeNetwork network(3, 1);
  const auto errors = meet(over(network, 3, 3), [&](Communicator& all, Backend&) {
    all.barrier();
    if (all.rank() == 2) return network.fall_silent(2);
    all.barrier();
  });
  for (size_t d : {0u, 1u}) {
    EXPECT_EQ(errors[d],
              "barrier in all: waits for device 2 of process 2: process 2 has not been heard from for 15 s");
  }
}

TEST(CpuBackend, FinishWaitsForAllButNotAfterAFailure) {
  const support::FakeNetwork network(2, 1);
  auto errors =
      meet(over(network, 2, 2), [](Communicator&, Backend& backend) { backend.transport()->finish(); });
  EXPECT_EQ(errors, std::vector<std::string>(2));
  const support::FakeNetwork failing(2, 1);
  errors = meet(over(failing, 2, 2), [](Communicator& all, Backend& backend) {
    if (all.rank() == 1) return backend.abort("device 1: no");
    backend.transport()->finish();
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"process 1 failed: device 1: no", ""}));
}

TEST(CpuBackend, SaysWhatItWaitsForWhileItWaits) {
  const support::FakeNetwork network(2, 1);
  meet(over(network, 2, 2), [&](Communicator& all, Backend& backend) {
    if (all.rank() == 0) {
      std::thread other([&] {
        while (backend.transport()->waiting().text() != "barrier in all waits for device 1 of process 1") {
          std::this_thread::yield();
        }
        backend.abort("enough");
      });
      EXPECT_EQ(backend_error([&] { all.barrier(); }),
                "barrier in all: waits for device 1 of process 1: enough");
      other.join();
    }
  });
}

TEST(Mailboxes, KeepWhatComesBeforeItsReader) {
  Mailboxes boxes;
  Waits waits(nullptr);
  const auto whom = [] { return "nobody"; };
  const auto text = [](const std::string& s) { return std::as_bytes(std::span(s)); };
  const std::string a = "first", b = "second";
  const std::vector<int> both = {0, 2}, one = {2};
  boxes.put(to_message("tp", 1, both, text(a)));
  boxes.put(to_message("tp", 1, one, text(b)));
  const auto take = [&](int to) {
    const Bytes bytes = boxes.box("tp", 1, to).take(waits, whom);
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  };
  EXPECT_EQ(take(0), "first");
  EXPECT_EQ(take(2), "first");
  EXPECT_EQ(take(2), "second");
}

TEST(Mailboxes, RefuseWhatIsCutShort) {
  const std::vector<int> to = {0};
  const std::vector<std::byte> message = to_message("tp", 1, to, {});
  for (size_t size = 0; size < message.size(); ++size) {
    Mailboxes boxes;
    EXPECT_EQ(backend_error([&] { boxes.put(std::span(message).first(size)); }),
              "a message between groups is cut short");
  }
}

}  // namespace
}  // namespace boxcar::backends::cpu
