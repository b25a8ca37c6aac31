// Operators on images and sequences: their values against loops written here, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx_models.h"

namespace boxcar::tests {
namespace {

using testing::HasSubstr;

// --- sizes

OnnxModel resized(Attributes attributes, const Numbers& factors) {
  OnnxModel onnx = model({node("Resize", {"x", "", "factors"}, "y", std::move(attributes))},
                         {{"factors", floats({static_cast<int64_t>(factors.size())}, factors)}},
                         {{0, "n"}, {1, ""}, {2, ""}, {2, ""}});
  return onnx;
}

const Attributes by_floor = {{"coordinate_transformation_mode", word("asymmetric")},
                             {"nearest_mode", word("floor")}};

TEST(ImportValues, OfResizesAreElementsSeveralTimes) {
  const HostTensor x{{{1, 1, 2, 2}, DType::float32}, {1, 2, 3, 4}};
  const Numbers twice_and_thrice{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4};
  for (const Attributes& attributes : {Attributes{}, by_floor}) {
    EXPECT_EQ(trained(resized(attributes, {1, 1, 2, 3}), x).y, twice_and_thrice);
    OnnxModel sizes = resized(attributes, {});
    sizes.nodes[0].inputs = {"x", "", "", "sizes"};
    sizes.weights = {{"sizes", wholes({1, 1, 4, 6})}};
    sizes.inputs[0].extents[0] = {1, ""};  // sizes that begin with a fixed batch
    EXPECT_EQ(trained(sizes, x).y, twice_and_thrice);
  }
  OnnxModel upsample = resized({{"mode", word("nearest")}}, {1, 1, 2, 3});
  upsample.nodes[0].type = "Upsample";
  upsample.nodes[0].inputs = {"x", "factors"};
  upsample.opset = 9;
  EXPECT_EQ(trained(upsample, x).y, twice_and_thrice);
}

TEST(ImportValues, OfResizesRefuseOtherKinds) {
  const auto with = [](Attributes attributes, const char* key, const char* text) {
    attributes[key] = word(text);
    return refusal(resized(attributes, {1, 1, 2, 3}));
  };
  EXPECT_EQ(with({}, "mode", "linear"), "Resize /y: has the mode linear, expected nearest");
  const char* others =
      "Resize /y: takes other elements than asymmetric with floor, or half_pixel with round_prefer_floor";
  EXPECT_EQ(with({}, "coordinate_transformation_mode", "align_corners"), others);
  EXPECT_EQ(with({}, "coordinate_transformation_mode", "asymmetric"), others);
  EXPECT_EQ(with({}, "nearest_mode", "floor"), others);
  EXPECT_EQ(with(by_floor, "keep_aspect_ratio_policy", "not_larger"),
            "Resize /y: has axes or keeps an aspect ratio");
  EXPECT_EQ(refusal(resized(by_floor, {1, 1, 1.5, 2})),
            "Resize /y: has a factor of 1.5, expected whole ones");
  EXPECT_EQ(refusal(resized(by_floor, {2, 2})), "Resize /y: repeats 2 axes of float32[1009, 1, 2, 2]");
  OnnxModel sizes = resized(by_floor, {});
  sizes.nodes[0].inputs = {"x", "", "", "sizes"};
  sizes.weights = {{"sizes", wholes({1009, 1, 3, 4})}};
  EXPECT_EQ(refusal(sizes),
            "Resize /y: makes 1009, 1, 3, 4 of float32[1009, 1, 2, 2], expected whole factors");
}

// --- norms of channels

// Each group of a sample's channels to mean 0 and variance 1; then each channel's scale and shift.
Numbers normalized(const HostTensor& x, int64_t groups, const Numbers& scale, const Numbers& shift,
                   double eps) {
  const int64_t channels = x.type.shape[1], area = x.type.elements() / x.type.shape[0] / channels,
                width = channels / groups * area;
  Numbers y;
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t first = i / width * width, channel = i / area % channels;
    double mean = 0, variance = 0;
    for (int64_t j = first; j < first + width; ++j) mean += x.data[static_cast<size_t>(j)];
    mean /= static_cast<double>(width);
    for (int64_t j = first; j < first + width; ++j)
      variance += std::pow(x.data[static_cast<size_t>(j)] - mean, 2) / static_cast<double>(width);
    const auto c = static_cast<size_t>(channel);
    y.push_back((x.data[static_cast<size_t>(i)] - mean) / std::sqrt(variance + eps) * scale[c] + shift[c]);
  }
  return y;
}

TEST(ImportValues, OfNormsOfChannels) {
  const HostTensor x = varied({2, 4, 3, 2});
  const Numbers scale{2, 1, -1, 0.5}, shift{1, 0, 3, -2};
  const Weights by_channel = {{"scale", floats({4}, scale)}, {"shift", floats({4}, shift)}};
  const Ran instance =
      trained(one("InstanceNormalization", x.type.shape, {{"epsilon", 0.25}}, by_channel), x);
  expect_near(instance.y, normalized(x, 4, scale, shift, 0.25));
  EXPECT_THAT(instance.text, HasSubstr("%scale.gamma: float32[4] = parameter()"));
  OnnxModel onnx = one("GroupNormalization", x.type.shape, {{"num_groups", whole(2)}}, by_channel);
  onnx.opset = 21;
  expect_near(trained(onnx, x).y, normalized(x, 2, scale, shift, 1e-5));
  // Earlier, channels of a group have one scale and one shift.
  const Weights by_group = {{"scale", floats({2}, {2, -1})}, {"shift", floats({2}, {0.5, 3})}};
  onnx = one("GroupNormalization", x.type.shape, {{"num_groups", whole(2)}}, by_group);
  onnx.opset = 18;
  expect_near(trained(onnx, x).y, normalized(x, 2, {2, 2, -1, -1}, {0.5, 0.5, 3, 3}, 1e-5));
}

// As PyTorch exports a group norm: constants in place of the scale and the shift.
TEST(ImportValues, OfNormsWithoutScalesHaveNone) {
  const HostTensor x = varied({2, 3, 4});
  OnnxModel onnx = one("InstanceNormalization", x.type.shape);
  onnx.nodes[0].inputs = {"x", "ones", "zeros"};
  onnx.nodes.insert(onnx.nodes.begin(), {node("Constant", {}, "ones", {{"value", floats({3}, {1, 1, 1})}}),
                                         node("Constant", {}, "zeros", {{"value", floats({3}, {0, 0, 0})}})});
  const Ran ran = trained(onnx, x);
  expect_near(ran.y, normalized(x, 3, {1, 1, 1}, {0, 0, 0}, 1e-5));
  EXPECT_THAT(ran.text, testing::Not(HasSubstr("%y.scaled")));
}

TEST(ImportValues, OfNormsOfChannelsRefuseOtherOperands) {
  const Weights three = {{"scale", floats({3}, {1, 2, 3})}, {"shift", floats({3}, {1, 2, 3})}};
  EXPECT_EQ(refusal(one("InstanceNormalization", {2, 4, 3}, {}, three)),
            "InstanceNormalization /y: has operand 1 of float32[3], expected 4 numbers");
  EXPECT_EQ(refusal(one("InstanceNormalization", {2, 3}, {}, three)),
            "InstanceNormalization /y: is of float32[1009, 3], expected [n, channels, ...]");
  EXPECT_EQ(refusal(one("GroupNormalization", {2, 4, 3}, {{"num_groups", whole(3)}}, three)),
            "GroupNormalization /y: has 3 groups for float32[1009, 4, 3]");
  EXPECT_EQ(refusal(one("GroupNormalization", {2, 4, 3}, {}, three)),
            "GroupNormalization /y: has operand 1 of float32[3], expected 0 numbers");
}

// --- windows

// x[n, channels, height, width], padded by `pads` before rows and columns and behind them.
HostTensor framed(const HostTensor& x, const Ints& pads) {
  const ir::Shape& s = x.type.shape;
  HostTensor y = backends::cpu::zeros(
      {{s[0], s[1], s[2] + pads[0] + pads[2], s[3] + pads[1] + pads[3]}, DType::float32});
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t column = i % s[3], row = i / s[3] % s[2], image = i / s[3] / s[2];
    const int64_t to = (image * y.type.shape[2] + row + pads[0]) * y.type.shape[3] + column + pads[1];
    y.data[static_cast<size_t>(to)] = x.data[static_cast<size_t>(i)];
  }
  return y;
}

Numbers convolved(const HostTensor& x, const HostTensor& w, const Numbers& bias, int64_t stride,
                  int64_t groups) {
  const ir::Shape &s = x.type.shape, &k = w.type.shape;
  const int64_t rows = (s[2] - k[2]) / stride + 1, columns = (s[3] - k[3]) / stride + 1;
  Numbers y;
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t o = 0; o < k[0]; ++o)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t q = 0; q < columns; ++q) {
          double sum = bias[static_cast<size_t>(o)];
          for (int64_t c = 0; c < k[1]; ++c)
            for (int64_t i = 0; i < k[2]; ++i)
              for (int64_t j = 0; j < k[3]; ++j) {
                const int64_t channel = o / (k[0] / groups) * k[1] + c;
                const int64_t from = ((n * s[1] + channel) * s[2] + r * stride + i) * s[3] + q * stride + j;
                sum += x.data[static_cast<size_t>(from)] *
                       w.data[static_cast<size_t>(((o * k[1] + c) * k[2] + i) * k[3] + j)];
              }
          y.push_back(sum);
        }
  return y;
}

HostTensor as_row(const HostTensor& x) {
  const ir::Shape& s = x.type.shape;
  return {{{s[0], s[1], 1, s[2]}, DType::float32}, x.data};
}

// Each element times the weight, added from stride times its place on; without the pads around the result.
Numbers transposed(const HostTensor& x, const HostTensor& w, int64_t stride, const Ints& pads,
                   const Ints& more, int64_t groups) {
  const ir::Shape &s = x.type.shape, &k = w.type.shape;
  const int64_t channels = k[1] * groups, rows = (s[2] - 1) * stride + k[2] + more[0],
                columns = (s[3] - 1) * stride + k[3] + more[1];
  Numbers whole(static_cast<size_t>(s[0] * channels * rows * columns), 0), y;
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const int64_t column = i % s[3], row = i / s[3] % s[2], from = i / s[3] / s[2] % s[1],
                  n = i / s[3] / s[2] / s[1];
    for (int64_t j = 0; j < k[1] * k[2] * k[3]; ++j) {
      const int64_t to = from / (s[1] / groups) * k[1] + j / k[3] / k[2];
      const int64_t at = ((n * channels + to) * rows + row * stride + j / k[3] % k[2]) * columns +
                         column * stride + j % k[3];
      whole[static_cast<size_t>(at)] +=
          x.data[static_cast<size_t>(i)] * w.data[static_cast<size_t>(from * k[1] * k[2] * k[3] + j)];
    }
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % columns, row = static_cast<int64_t>(i) / columns % rows;
    if (row >= pads[0] && row < rows - pads[2] && column >= pads[1] && column < columns - pads[3])
      y.push_back(whole[i]);
  }
  return y;
}

TEST(ImportValues, OfTransposedConvolutions) {
  const HostTensor x = varied({2, 4, 3, 2}), w = varied({4, 3, 2, 3}, 0.5), line = varied({2, 2, 5}),
                   narrow = varied({2, 3, 4}, 0.5);
  for (const Ints& pads : {Ints{0, 0, 0, 0}, Ints{1, 1, 1, 1}, Ints{0, 1, 1, 0}})
    expect_near(trained(one("ConvTranspose", x.type.shape,
                            {{"strides", Ints{2, 2}},
                             {"output_padding", Ints{1, 0}},
                             {"pads", pads},
                             {"group", whole(2)}},
                            {{"w", weight(w)}}),
                        x)
                    .y,
                transposed(x, w, 2, pads, {1, 0}, 2));
  Numbers biased = transposed(as_row(line), as_row(narrow), 3, {0, 1, 0, 2}, {0, 2}, 1);
  for (size_t i = 0; i < biased.size(); ++i) biased[i] += static_cast<double>(i / (biased.size() / 6) % 3);
  const Attributes attributes = {{"strides", Ints{3}}, {"output_padding", Ints{2}}, {"pads", Ints{1, 2}}};
  expect_near(trained(one("ConvTranspose", line.type.shape, attributes,
                          {{"1w", weight(narrow)}, {"2bias", floats({3}, {0, 1, 2})}}),
                      line)
                  .y,
              biased);
  EXPECT_EQ(refusal(one("ConvTranspose", x.type.shape, {{"output_shape", Ints{8, 8}}}, {{"w", weight(w)}})),
            "ConvTranspose /y: has output_shape, expected pads");
  EXPECT_EQ(refusal(one("ConvTranspose", x.type.shape, {{"dilations", Ints{2, 2}}}, {{"w", weight(w)}})),
            "ConvTranspose /y: is dilated");
  for (const Ints& pads : {Ints{-1, -1, -1, -1}, Ints{-1, 0, 0, 0}, Ints{0, 0, 0, 9}})
    EXPECT_THAT(refusal(one("ConvTranspose", x.type.shape, {{"pads", pads}}, {{"w", weight(w)}})),
                HasSubstr("expected"));
  EXPECT_THAT(
      refusal(one("ConvTranspose", x.type.shape, {{"output_padding", Ints{1, 1}}}, {{"w", weight(w)}})),
      HasSubstr("expected shape [1009, 4, 4, 3]"));
}

TEST(ImportValues, OfSquaresOfChannels) {
  const HostTensor x{{{1, 8, 1, 2}, DType::float32}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
  const auto squares = [&](const char* mode) {
    return trained(one("DepthToSpace", x.type.shape, {{"blocksize", whole(2)}, {"mode", word(mode)}}), x).y;
  };
  EXPECT_EQ(squares("CRD"), (Numbers{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  EXPECT_EQ(squares("DCR"), (Numbers{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15}));
  EXPECT_EQ(refusal(one("DepthToSpace", x.type.shape, {{"blocksize", whole(3)}})),
            "DepthToSpace /y: has blocks of 3 for float32[1009, 8, 1, 2]");
}

TEST(ImportValues, OfConvolutionsOfSequences) {
  const HostTensor x = varied({2, 4, 7}), w = varied({6, 2, 3}, 0.5), plain = varied({3, 4, 2}, 0.5);
  const Numbers bias{1, -2, 3, 0, 0.5, 4};
  const Weights weights = {{"1w", weight(w)}, {"2bias", floats({6}, bias)}};
  const Attributes attributes = {{"pads", Ints{2, 1}},
                                 {"strides", Ints{2}},
                                 {"dilations", Ints{1}},
                                 {"group", whole(2)},
                                 {"kernel_shape", Ints{3}}};
  expect_near(trained(one("Conv", x.type.shape, attributes, weights), x).y,
              convolved(framed(as_row(x), {0, 2, 0, 1}), as_row(w), bias, 2, 2));
  expect_near(trained(one("Conv", x.type.shape, {}, {{"w", weight(plain)}}), x).y,
              convolved(as_row(x), as_row(plain), {0, 0, 0}, 1, 1));
}

TEST(ImportValues, OfConvolutionsWithPadsOfSeveralSizes) {
  const HostTensor x = varied({2, 2, 4, 5}), w = varied({3, 2, 2, 3}, 0.5);
  const Ran ran = trained(one("Conv", x.type.shape, {{"pads", Ints{0, 1, 2, 3}}}, {{"w", weight(w)}}), x);
  expect_near(ran.y, convolved(framed(x, {0, 1, 2, 3}), w, {0, 0, 0}, 1, 1));
  EXPECT_THAT(ran.text, HasSubstr("slice_grad(%x) {shape=[batch, 2, 6, 9], starts=[0, 0, 0, 1]}"));
}

TEST(ImportValues, OfConvolutionsRefuseOtherForms) {
  const auto said = [](const ir::Shape& x, const ir::Shape& w, Attributes attributes) {
    return refusal(one("Conv", x, std::move(attributes), {{"w", weight(varied(w))}}));
  };
  EXPECT_EQ(said({2, 2, 7}, {3, 2, 3}, {{"dilations", Ints{2}}}), "Conv /y: is dilated");
  EXPECT_EQ(said({2, 2, 7}, {3, 2, 3}, {{"pads", Ints{0, 1, 0, 1}}}), "Conv /y: has 4 pads, expected 2");
  EXPECT_EQ(said({2, 2, 7}, {3, 2, 3}, {{"pads", Ints{1, -1}}}), "Conv /y: has pads 1, -1");
  EXPECT_EQ(said({2, 2, 7, 7}, {3, 2, 3, 3}, {{"pads", Ints{-1, -1, -1, -1}}}),
            "Conv /y: y: conv2d: padding is -1, expected at least 0");
  EXPECT_EQ(said({2, 2, 7}, {3, 2, 3, 3}, {}),
            "Conv /y: has a weight of float32[3, 2, 3, 3] for float32[1009, 2, 7]");
  EXPECT_EQ(said({2, 2, 7, 7}, {3, 2, 3, 3}, {{"auto_pad", word("SAME_UPPER")}}),
            "Conv /y: has auto_pad SAME_UPPER, expected pads");
  EXPECT_EQ(said({2, 2, 7, 7, 7}, {3, 2, 3, 3, 3}, {}),
            "Conv /y: is of float32[1009, 2, 7, 7, 7], expected images [n, channels, height, width]");
}

TEST(ImportValues, OfAveragesThatCountTheirPads) {
  const HostTensor x = varied({2, 1, 4, 4});
  const HostTensor quarter{{{1, 1, 2, 2}, DType::float32}, Numbers(4, 0.25)};
  const auto pooled = [](Ints pads, bool counted) {
    return one("AveragePool", {2, 1, 4, 4},
               {{"kernel_shape", Ints{2, 2}},
                {"strides", Ints{2, 2}},
                {"pads", std::move(pads)},
                {"count_include_pad", whole(counted)}});
  };
  for (const Ints& pads : {Ints{0, 0, 1, 1}, Ints{1, 1, 1, 1}, Ints{0, 0, 0, 0}})
    expect_near(trained(pooled(pads, true), x).y, convolved(framed(x, pads), quarter, {0}, 2, 1));
  EXPECT_EQ(refusal(pooled({0, 0, 1, 1}, false)), "AveragePool /y: does not count its padding");
}

TEST(ImportValues, OfPadsAreZeros) {
  const HostTensor x{{{2, 2}, DType::float32}, {1, 2, 3, 4}};
  const auto padded = [](const Numbers& pads, Attributes attributes) {
    return one("Pad", {2, 2}, std::move(attributes), {{"pads", wholes(pads)}});
  };
  EXPECT_EQ(trained(padded({0, 1, 0, 2}, {}), x).y, (Numbers{0, 1, 2, 0, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(refusal(padded({0, 1, 0, 1}, {{"mode", word("reflect")}})),
            "Pad /y: has the mode reflect, expected constant");
  EXPECT_EQ(refusal(padded({0, -1, 0, 0}, {})), "Pad /y: has pads 0, -1, 0, 0");
  EXPECT_EQ(refusal(padded({1, 1}, {})), "Pad /y: has 2 pads for float32[1009, 2]");
  EXPECT_EQ(refusal(one("Pad", {2, 2}, {}, {{"pads", wholes({0, 1, 0, 1})}, {"value", floats({}, {1})}})),
            "Pad /y: pads with 1, expected 0");
}

}  // namespace
}  // namespace boxcar::tests
