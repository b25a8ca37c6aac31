// Sizes and flops of published convolutional networks, and shapes inside them.
#include <gtest/gtest.h>

#include "graphs.h"
#include "ir/models/model.h"

namespace boxcar::tests {
namespace {

using ir::models::ConvNet;

ConvNet resnet(int64_t blocks, int64_t width) { return {"resnet", blocks, 64, width, 224, 1000}; }

TEST(ConvNets, ParametersOfPublishedConvolutionalNetworks) {
  // torchvision's ResNet-50, -101, -152 (v1.5), and wide ones of 50 and 101.
  EXPECT_EQ(ir::models::parameters(resnet(16, 1)), 25557032);
  EXPECT_EQ(ir::models::parameters(resnet(33, 1)), 44549160);
  EXPECT_EQ(ir::models::parameters(resnet(50, 1)), 60192808);
  EXPECT_EQ(ir::models::parameters(resnet(16, 2)), 68883240);
  EXPECT_EQ(ir::models::parameters(resnet(33, 2)), 126886696);
  EXPECT_EQ(ir::models::parameters(ConvNet{"unet", 9, 64, 1, 64, 2}),
            31037698);  // Ronneberger et al. 2015 with batch norm
  EXPECT_EQ(ir::models::parameters(ConvNet{"alexnet", 8, 64, 1, 224, 1000}), 61100840);  // torchvision's
  // Alpa's diffusion U-Nets, called 470M, 1B and 2B: four levels of images of 32 x 32, four output channels.
  EXPECT_EQ(ir::models::parameters(ConvNet{"diffusion_unet", 9, 320, 1, 32, 4}), 471190724);
  EXPECT_EQ(ir::models::parameters(ConvNet{"diffusion_unet", 9, 480, 1, 32, 4}), 1059989284);
  EXPECT_EQ(ir::models::parameters(ConvNet{"diffusion_unet", 9, 672, 1, 32, 4}), 2077366372);
  // Alpa's Wide-ResNets: channels, width, and the size in the model's name.
  struct Row {
    int64_t layers, channels, width;
    double published;
  };
  for (const Row& row :
       {Row{16, 160, 2, 250e6}, Row{16, 224, 2, 500e6}, Row{16, 320, 2, 1e9}, Row{16, 448, 2, 2e9},
        Row{16, 640, 2, 4e9}, Row{16, 320, 16, 6.8e9}, Row{33, 320, 16, 13e9}}) {
    const int64_t count =
        ir::models::parameters(ConvNet{"wide_resnet", row.layers, row.channels, row.width, 224, 1024});
    EXPECT_NEAR(static_cast<double>(count) / row.published, 1, 0.04) << row.published;
  }
}

// fvcore's count for torchvision's models, multiply-adds per image of 224 x 224. The backward pass takes
// twice as much, less the gradient of the images.
TEST(ConvNets, FlopsOfResNetsArePublished) {
  EXPECT_EQ(counted_flops(ir::models::build(resnet(16, 1), 1)), 2 * 4089184256.0);
  EXPECT_NEAR(counted_flops(ir::models::build(resnet(33, 1), 1)) / 2e9, 7.80, 0.005);
  EXPECT_NEAR(counted_flops(ir::models::build(resnet(50, 1), 1)) / 2e9, 11.51, 0.005);
  EXPECT_NEAR(counted_flops(ir::models::build(resnet(16, 2), 1)) / 2e9, 11.40, 0.005);
  const double first = 2.0 * 112 * 112 * 64 * 3 * 49;
  EXPECT_EQ(counted_flops(step_of(ir::models::build(resnet(16, 1), 1), {})), 3 * 2 * 4089184256.0 - first);
}

TEST(ConvNets, ShapesOfConvolutionalNetworks) {
  ConvNet net{"wide_resnet", 16, 8, 1, 64, 10};
  const ir::Graph graph = ir::models::build(net, 4);
  EXPECT_EQ(graph.layers, 16);
  EXPECT_EQ(counted(graph), ir::models::parameters(net));
  EXPECT_EQ(to_text(graph.tensor(ir::find_tensor(graph, "h15.out")).type), "float32[4, 256, 2, 2]");
  EXPECT_EQ(to_text(graph.tensor(ir::find_tensor(graph, "head")).type), "float32[4, 10]");
  net.family = "unet", net.layers = 5;
  const ir::Graph unet = ir::models::build(net, 2);
  EXPECT_EQ(to_text(unet.tensor(ir::find_tensor(unet, "h2.out")).type), "float32[2, 32, 16, 16]");
  EXPECT_EQ(to_text(unet.tensor(ir::find_tensor(unet, "h4.beside")).type), "float32[2, 16, 64, 64]");
  EXPECT_EQ(to_text(unet.tensor(ir::find_tensor(unet, "scores")).type), "float32[2, 64, 64, 10]");
}

TEST(ConvNets, LevelsOfTheDiffusionUNet) {
  const ir::Graph unet = ir::models::build(ConvNet{"diffusion_unet", 9, 16, 1, 32, 4}, 2);
  const auto type = [&](const char* name) { return to_text(unet.tensor(ir::find_tensor(unet, name)).type); };
  EXPECT_EQ(type("h0.attended"), "float32[2, 16, 32, 32]");
  EXPECT_EQ(type("h0.self.scores"), "float32[2, 8, 1024, 1024]");
  EXPECT_EQ(type("h0.cross.scores"), "float32[2, 8, 1024, 16]");
  EXPECT_EQ(type("h2.attended"), "float32[2, 64, 8, 8]");
  EXPECT_EQ(type("h3.block"), "float32[2, 64, 4, 4]");
  EXPECT_EQ(type("h4.block2"), "float32[2, 64, 4, 4]");
  EXPECT_EQ(type("h5.beside"), "float32[2, 128, 4, 4]");
  EXPECT_EQ(type("h7.beside"), "float32[2, 96, 16, 16]");
  EXPECT_EQ(type("h8.beside"), "float32[2, 48, 32, 32]");
  EXPECT_EQ(type("h8.beside_stem"), "float32[2, 32, 32, 32]");
  EXPECT_EQ(type("loss"), "float32[]");
}

// torchvision says 0.71 G multiply-adds per image of 224 x 224.
TEST(ConvNets, FlopsOfAlexNetArePublished) {
  EXPECT_EQ(counted_flops(ir::models::build(ConvNet{"alexnet", 8, 64, 1, 224, 1000}, 1)), 2 * 714188480.0);
}

}  // namespace
}  // namespace boxcar::tests
