// Collectives over several tensors at once, compared with the tensors that they were cut from.
#include "actors/joint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "sbp/at.h"
#include "sbp/error.h"
#include "support/fake_backend.h"

namespace boxcar::actors {
namespace {

using ir::TensorType;
using sbp::Collective;
using Values = std::vector<float>;

struct Tensor {
  TensorType type;
  Values values;
};

// Elements whose coordinate along `axis` lies in [begin, end).
Tensor cut(const Tensor& whole, int64_t axis, int64_t begin, int64_t end) {
  int64_t inner = 1;
  const sbp::Shape& shape = whole.type.shape;
  for (size_t a = static_cast<size_t>(axis) + 1; a < shape.size(); ++a) inner *= shape[a];
  const int64_t extent = at(shape, axis);
  Tensor part{whole.type, {}};
  at(part.type.shape, axis) = end - begin;
  for (size_t i = 0; i < whole.values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / inner % extent;
    if (at >= begin && at < end) part.values.push_back(whole.values[i]);
  }
  return part;
}

class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Tensor tensor(sbp::Shape shape) {
    Tensor t{{std::move(shape), ir::DType::float32}, {}};
    for (int64_t i = t.type.elements(); i > 0; --i) t.values.push_back(static_cast<float>(pick(0, 999)));
    return t;
  }
  sbp::Shape shape() {
    sbp::Shape shape;
    for (int64_t rank = pick(2, 4); rank > 0; --rank) shape.push_back(pick(0, 4));
    return shape;
  }
  // Boundaries of `parts` parts of an extent, of any lengths.
  std::vector<int64_t> bounds(int64_t extent, int64_t parts) {
    std::vector<int64_t> bounds{0, extent};
    for (int64_t k = 1; k < parts; ++k) bounds.push_back(pick(0, extent));
    std::sort(bounds.begin(), bounds.end());
    return bounds;
  }

 private:
  std::mt19937 random_;
};

// Each member's inputs and expected outputs, tensor by tensor.
struct Case {
  JointSpec spec;
  std::vector<std::vector<Tensor>> in, out;
};

Case draw(Random& random, Collective kind) {
  const int64_t members = random.pick(1, 4), tensors = random.pick(1, 3);
  Case c;
  c.spec.name = "joint";
  c.spec.collective = kind;
  c.in.resize(static_cast<size_t>(members));
  c.out.resize(static_cast<size_t>(members));
  for (int64_t t = 0; t < tensors; ++t) {
    const sbp::Shape shape = random.shape();
    const int64_t rank = static_cast<int64_t>(shape.size()), axis = random.pick(0, rank - 1);
    const int64_t axis2 = (axis + random.pick(1, rank - 1)) % rank;
    c.spec.axes.push_back(axis);
    c.spec.axes2.push_back(axis2);
    const auto first = random.bounds(at(shape, axis), members);
    const auto second = random.bounds(at(shape, axis2), members);
    const Tensor whole = random.tensor(shape);
    Tensor sum{whole.type, Values(whole.values.size())};
    for (size_t m = 0; m < c.in.size(); ++m) {
      const bool sums =
          kind == Collective::all_reduce || kind == Collective::reduce_scatter || kind == Collective::reduce;
      Tensor given = sums ? random.tensor(shape) : whole;
      for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += given.values[i];
      if (kind == Collective::all_gather || kind == Collective::all_to_all)
        given = cut(whole, axis, first[m], first[m + 1]);
      if (kind != Collective::broadcast || m == 0) c.in[m].push_back(given);
    }
    for (size_t m = 0; m < c.in.size(); ++m) {
      if (kind == Collective::reduce && m > 0) continue;
      Tensor got = whole;
      if (kind == Collective::all_reduce || kind == Collective::reduce) got = sum;
      if (kind == Collective::reduce_scatter) got = cut(sum, axis, first[m], first[m + 1]);
      if (kind == Collective::all_to_all) got = cut(whole, axis2, second[m], second[m + 1]);
      c.out[m].push_back(got);
    }
  }
  const auto types = [](const std::vector<std::vector<Tensor>>& all) {
    std::vector<std::vector<TensorType>> result;
    for (const auto& tensors : all) {
      result.emplace_back();
      for (const Tensor& t : tensors) result.back().push_back(t.type);
    }
    return result;
  };
  c.spec.inputs = types(c.in);
  c.spec.outputs = types(c.out);
  return c;
}

void run_member(const Case& c, size_t m, support::FakeMeeting& meeting) {
  JointSpec spec = c.spec;
  spec.rank = static_cast<int>(m);
  const Joint joint(spec);
  support::FakeCommunicator communicator(meeting, spec.rank);
  support::FakeQueue queue;
  std::vector<std::byte> scratch(static_cast<size_t>(joint.scratch_bytes()));
  std::vector<const void*> in;
  std::vector<Values> got;
  std::vector<void*> out;
  for (const Tensor& t : c.in[m]) in.push_back(t.values.data());
  for (const Tensor& t : c.out[m]) got.emplace_back(t.values.size());
  for (Values& values : got) out.push_back(values.data());
  joint.run(communicator, queue, in, out, scratch.data());
  for (size_t t = 0; t < got.size(); ++t)
    EXPECT_EQ(got[t], c.out[m][t].values) << "member " << m << " tensor " << t;
}

TEST(Joint, GivesEveryMemberItsPartOfEveryTensor) {
  Random random(5);
  for (const Collective kind : {Collective::all_reduce, Collective::broadcast, Collective::all_gather,
                                Collective::reduce_scatter, Collective::all_to_all, Collective::reduce})
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(fmt::format("{} case {}", sbp::to_text(kind), i));
      const Case c = draw(random, kind);
      support::FakeMeeting meeting(c.in.size());
      std::vector<std::thread> members;
      for (size_t m = 0; m < c.in.size(); ++m) members.emplace_back([&, m] { run_member(c, m, meeting); });
      for (std::thread& member : members) member.join();
      if (HasFailure()) return;
    }
}

std::string message_of(const JointSpec& spec) {
  try {
    Joint{spec};
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Joint, CopiesNothingWherePartsLieOneAfterTheOther) {
  const TensorType part{{2, 3}, ir::DType::float32}, rows{{4, 3}, ir::DType::float32},
      columns{{2, 6}, ir::DType::float32};
  JointSpec spec{"g", Collective::all_gather, sbp::Reduction::sum, {0},
                 {},  {{part}, {part}},       {{rows}, {rows}},    0};
  EXPECT_EQ(Joint(spec).scratch_bytes(), 0);
  spec.axes = {1};
  spec.outputs = {{columns}, {columns}};
  EXPECT_EQ(Joint(spec).scratch_bytes(), 512);  // 48 bytes gathered, aligned
}

TEST(Joint, RefusesMembersThatDoNotFit) {
  const TensorType two{{2}, ir::DType::float32}, five{{5}, ir::DType::float32}, half{{2}, ir::DType::float16};
  JointSpec spec{"ar", Collective::all_gather, sbp::Reduction::sum, {0},
                 {},   {{two}, {two}},         {{five}, {five}},    0};
  EXPECT_EQ(message_of(spec), "ar: tensor 0: parts along axis 0 add up to 4 of float32[5]");
  spec.axes = {1};
  EXPECT_EQ(message_of(spec), "ar: tensor 0: float32[5] has no axis 1");
  spec.inputs = {{two}, {half}};
  EXPECT_EQ(message_of(spec), "ar: tensor 0: float32 beside float16");
  spec.collective = Collective::none;
  spec.inputs = spec.outputs;
  EXPECT_EQ(message_of(spec),
            fmt::format("ar: {} is no collective of a group", sbp::to_text(Collective::none)));
}

// A block compared with its elements, one by one.
TEST(Moves, PackABlockAndPutItBack) {
  Random random(6);
  support::FakeQueue queue;
  for (int i = 0; i < 200; ++i) {
    const Tensor whole = random.tensor(random.shape());
    std::vector<sbp::Range> block;
    Tensor part = whole;
    for (size_t a = 0; a < whole.type.shape.size(); ++a) {
      const auto bounds = random.bounds(whole.type.shape[a], 3);
      block.push_back({bounds[1], bounds[2]});
      part = cut(part, static_cast<int64_t>(a), bounds[1], bounds[2]);
    }
    Values packed(part.values.size()), back(whole.values.size(), -1);
    for (const Move& move : block_of(whole.type.shape, 4, block)) {
      pack(queue, move, reinterpret_cast<std::byte*>(packed.data()),
           reinterpret_cast<const std::byte*>(whole.values.data()));
      unpack(queue, move, reinterpret_cast<std::byte*>(back.data()),
             reinterpret_cast<const std::byte*>(packed.data()));
    }
    ASSERT_EQ(packed, part.values);
    for (size_t e = 0; e < back.size(); ++e) ASSERT_TRUE(back[e] == -1 || back[e] == whole.values[e]);
    ASSERT_EQ(back.size() - static_cast<size_t>(std::count(back.begin(), back.end(), -1.0F)), packed.size());
  }
}

}  // namespace
}  // namespace boxcar::actors
