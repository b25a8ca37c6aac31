#include "backends/host/images.h"

#include <gmock/gmock.h>

#include <set>

#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::ImageData;
using backends::host::ImageSamples;
using testing::ElementsAre;

// Images of 1 x 1: two bytes of a label and three of colours.
std::string record(int label, uint8_t red, uint8_t green, uint8_t blue) {
  return {static_cast<char>(label % 256), static_cast<char>(label / 256), static_cast<char>(red),
          static_cast<char>(green), static_cast<char>(blue)};
}

TEST(ImageData, JoinsFilesOfRecords) {
  const TemporaryFolder folder;
  const std::string first = folder.file("a.bin", record(7, 1, 2, 3) + record(999, 4, 5, 6)),
                    second = folder.file("b.bin", record(0, 255, 0, 128));
  const ImageData data = ImageData::open({first, second}, 1, 1000);
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.label(1), 999);
  EXPECT_THAT(data.pixels(2), ElementsAre(255, 0, 128));
  EXPECT_THAT(data.identity(), testing::MatchesRegex("3 images of fingerprint [0-9a-f]{16}"));
  EXPECT_NE(data.identity(), ImageData::open({second, first}, 1, 1000).identity());
}

TEST(ImageData, RefusesBadFiles) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& content, int64_t classes) {
    const std::string path = folder.file("a.bin", content);
    return message_of(folder, [&] { ImageData::open({path}, 1, classes); });
  };
  EXPECT_EQ(refused("", 10), "2: a.bin: is empty, expected images");
  EXPECT_EQ(refused("123456", 10),
            "2: a.bin: has 6 bytes, expected a multiple of 5: 2 of a label and 3 x 1 x 1 of an image");
  EXPECT_EQ(refused(record(1, 0, 0, 0) + record(10, 0, 0, 0), 10),
            "2: a.bin: image 1 is of class 10, expected 0 to 9 (increase classes)");
}

// Every image once in an epoch, in another order in the next; parts as their ranges say.
TEST(ImageSamples, AreShuffledByEpoch) {
  const ImageData data = ImageData::random(4, 10, 1);
  const ImageSamples samples(data, 5);
  std::vector<std::vector<float>> epochs[2];
  for (int64_t i = 0; i < 2 * data.size(); ++i) {
    std::vector<float> image(48);
    EXPECT_EQ(samples.read("images", i, std::vector<sbp::Range>{{0, 3}, {0, 4}, {0, 4}}, false,
                           reinterpret_cast<std::byte*>(image.data())),
              48 * 4);
    int64_t label = -1;
    EXPECT_EQ(samples.read("labels", i, {}, false, reinterpret_cast<std::byte*>(&label)), 8);
    EXPECT_TRUE(label >= 0 && label < 10);
    epochs[i / data.size()].push_back(std::move(image));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(std::set(epochs[0].begin(), epochs[0].end()), std::set(epochs[1].begin(), epochs[1].end()));
  std::vector<float> rows(2);
  samples.read("images", 3, std::vector<sbp::Range>{{1, 2}, {2, 4}, {3, 4}}, false,
               reinterpret_cast<std::byte*>(rows.data()));
  EXPECT_THAT(rows, ElementsAre(epochs[0][3][16 + 11], epochs[0][3][16 + 15]));
}

TEST(ImageSamples, AreBytesAroundZero) {
  const TemporaryFolder folder;
  const ImageSamples samples(ImageData::open({folder.file("a.bin", record(2, 0, 255, 128))}, 1, 3), 1);
  std::vector<float> image(3);
  samples.read("images", 0, std::vector<sbp::Range>{{0, 3}, {0, 1}, {0, 1}}, false,
               reinterpret_cast<std::byte*>(image.data()));
  EXPECT_THAT(image, ElementsAre(-2, 2, 0.5F / 63.75F));
  std::vector<double> wide(3);
  EXPECT_EQ(samples.read("images", 0, std::vector<sbp::Range>{{0, 3}, {0, 1}, {0, 1}}, true,
                         reinterpret_cast<std::byte*>(wide.data())),
            3 * 8);
  EXPECT_THAT(wide, ElementsAre(-2, 2, 0.5 / 63.75));
}

}  // namespace
}  // namespace boxcar::tests
