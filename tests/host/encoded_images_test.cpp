#include "backends/host/encoded_images.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "backends/host/crop.h"
#include "backends/jpeg/jpeg.h"
#include "support/picture_files.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Crop;
using backends::host::Crops;
using backends::host::EncodedImages;
using backends::host::EncodedSamples;
namespace jpeg = backends::jpeg;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A slope in each colour, close to every part of a JPEG file.
uint8_t slope(int64_t x, int64_t y, int colour) {
  return static_cast<uint8_t>(colour == 0 ? x : colour == 1 ? y : (x + y) / 2);
}

class Jpeg : public testing::Test {
 protected:
  void SetUp() override {
    if (!jpeg::available()) GTEST_SKIP() << "this build has no libjpeg-turbo";
  }
};

TEST_F(Jpeg, DecodesToTheSizeThatIsAskedFor) {
  const std::vector<std::byte> file = bytes_of(jpeg_file(200, 120, slope));
  EXPECT_EQ(jpeg::size_of(file, "").width, 200);
  EXPECT_EQ(jpeg::size_of(file, "").height, 120);
  struct Row {
    double scale;
    int64_t width, height;
  };
  for (const auto& [scale, width, height] : {Row{2, 200, 120}, Row{1, 200, 120}, Row{0.9, 200, 120},
                                             Row{0.5, 100, 60}, Row{0.26, 75, 45}, Row{0, 25, 15}}) {
    const jpeg::Picture picture = jpeg::decode(file, scale, "a.jpg");
    EXPECT_EQ(picture.width, width) << scale;
    EXPECT_EQ(picture.height, height) << scale;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_NEAR(picture.rgb[static_cast<size_t>((y * width + x) * 3 + c)],
                      slope(x * 200 / width, y * 120 / height, c), 4 + 200 / width)
              << scale << ": " << x << ", " << y << ", " << c;
  }
}

TEST_F(Jpeg, DecodesInksToColours) {
  const jpeg::Picture picture = jpeg::decode(bytes_of(cmyk_file(64, 64, slope)), 1, "a.jpg");
  for (int64_t i = 0; i < 64 * 64 * 3; ++i)
    ASSERT_NEAR(picture.rgb[static_cast<size_t>(i)], slope(i / 3 % 64, i / 3 / 64, static_cast<int>(i % 3)),
                8)
        << i;
}

TEST_F(Jpeg, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& file) {
    return message_of(folder, [&] { jpeg::decode(bytes_of(file), 1, "a.jpg"); });
  };
  using testing::HasSubstr, testing::StartsWith;
  const std::string whole = jpeg_file(64, 64, slope);
  EXPECT_EQ(refused(whole), "");
  EXPECT_EQ(refused(""), "2: a.jpg: is empty, expected a JPEG file");
  // Bytes in front of the end of the picture are too many, not too few.
  std::string more = whole;
  EXPECT_EQ(refused(more.insert(more.size() - 2, "more")), "");
  EXPECT_THAT(refused("GIF89a"), StartsWith("2: a.jpg: is no whole JPEG file: "));
  EXPECT_THAT(refused(whole.substr(0, whole.size() / 2)), StartsWith("2: a.jpg: is no whole JPEG file: "));
  // Wherever it is cut: grey below the cut is nobody's picture.
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refused(whole.substr(0, size)), "") << size << " of " << whole.size();
  const std::string end = "\xff\xd9";  // of the picture, too early
  EXPECT_THAT(refused(whole.substr(0, whole.size() * 3 / 4) + end), HasSubstr("premature end of data"));
  // A header that announces more than anybody has.
  const size_t size = whole.find("\xff\xc0") + 5;
  std::string huge = whole;
  huge.replace(size, 4, "\xff\xdc\xff\xdc");
  EXPECT_EQ(refused(huge), "2: a.jpg: has 65500 x 65500 pixels, expected at most 67108864 in all");
}

// A share of the area and a ratio within bounds, all within the picture, half of them mirrored, no two alike.
TEST(Crops, AreDrawnWithinBounds) {
  int mirrored = 0;
  std::set<std::pair<int64_t, int64_t>> corners;
  double least = 1, most = 0;
  for (uint64_t key = 0; key < 1000; ++key) {
    const Crop crop = backends::host::random_crop(500, 375, key);
    EXPECT_EQ(crop, backends::host::random_crop(500, 375, key));
    EXPECT_GE(crop.left, 0);
    EXPECT_GE(crop.top, 0);
    EXPECT_LE(crop.left + crop.width, 500);
    EXPECT_LE(crop.top + crop.height, 375);
    const double share = static_cast<double>(crop.width * crop.height) / (500 * 375);
    least = std::min(least, share), most = std::max(most, share);
    EXPECT_NEAR(std::log(static_cast<double>(crop.width) / static_cast<double>(crop.height)), 0,
                std::log(1.36));
    mirrored += crop.mirrored ? 1 : 0;
    corners.insert({crop.left, crop.top});
  }
  EXPECT_NEAR(mirrored, 500, 80);
  EXPECT_GT(corners.size(), 900U);
  EXPECT_NEAR(least, 0.08, 0.02);
  EXPECT_NEAR(most, 1, 0.06);
}

TEST(Crops, AreTheMiddleWhereNoneIsFound) {
  for (uint64_t key = 0; key < 100; ++key) {
    const Crop wide = backends::host::random_crop(1000, 3, key), one = backends::host::random_crop(1, 1, key);
    EXPECT_LE(wide.height, 3);
    EXPECT_LE(wide.width, 4);
    EXPECT_EQ(one.width * one.height, 1);
  }
  EXPECT_EQ(backends::host::middle_crop(320, 256), (Crop{48, 16, 224, 224, false}));
  EXPECT_EQ(backends::host::middle_crop(1, 1), (Crop{0, 0, 1, 1, false}));
}

TEST(Crops, LieInTheDecodedSize) {
  for (uint64_t key = 0; key < 200; ++key) {
    const Crop crop = backends::host::random_crop(497, 371, key);
    for (const auto& [width, height] : {std::pair{249, 186}, {63, 47}, {1, 1}, {497, 371}}) {
      const Crop now = backends::host::scaled(crop, {497, 371}, {width, height});
      EXPECT_GE(now.width, 1);
      EXPECT_GE(now.height, 1);
      EXPECT_LE(now.left + now.width, width);
      EXPECT_LE(now.top + now.height, height);
      EXPECT_TRUE(width != 497 || now == crop);
    }
  }
}

// A slope stays one when it is made larger or smaller; mirrored, it falls.
TEST(Crops, AreResizedWithoutBias) {
  jpeg::Picture picture{64, 64, {}};
  for (int64_t i = 0; i < 64 * 64 * 3; ++i)
    picture.rgb.push_back(static_cast<uint8_t>(3 * (i % 3 == 0 ? i / 3 % 64 : i / 3 / 64)));
  for (const int64_t image : {8, 20, 48, 100})
    for (const bool mirrored : {false, true}) {
      std::vector<uint8_t> planes(static_cast<size_t>(3 * image * image));
      backends::host::resize(picture, {8, 4, 48, 56, mirrored}, image, planes);
      for (int64_t y = 2; y < image - 2; ++y)
        for (int64_t x = 2; x < image - 2; ++x) {
          const auto centre = [image](int64_t at, int64_t size) {
            return (static_cast<double>(at) + 0.5) * static_cast<double>(size) / static_cast<double>(image) -
                   0.5;
          };
          ASSERT_NEAR(planes[static_cast<size_t>(y * image + x)],
                      3 * (8 + centre(mirrored ? image - 1 - x : x, 48)), 1.01);
          ASSERT_NEAR(planes[static_cast<size_t>((image + y) * image + x)], 3 * (4 + centre(y, 56)), 1.01);
        }
    }
  // The same size: the same bytes.
  std::vector<uint8_t> planes(3 * 64 * 64);
  backends::host::resize(picture, {0, 0, 64, 64, false}, 64, planes);
  for (size_t i = 0; i < planes.size(); ++i)
    ASSERT_EQ(planes[i], picture.rgb[i % (64 * 64) * 3 + i / (64 * 64)]) << i;
}

// Three classes, one of them empty, of which the middle one has two images.
void make_folder(const TemporaryFolder& folder) {
  for (const char* name : {"cat", "dog", "eel"}) std::filesystem::create_directory(folder / name);
  folder.file("dog/2.jpeg", jpeg_file(32, 32, slope));
  folder.file("dog/1.JPG", jpeg_file(40, 32, slope));
  folder.file("eel/1.jpg", jpeg_file(32, 48, slope));
  folder.file("eel/notes.txt", "none");
  folder.file("list.txt", "none");
  folder.file("eel/._1.jpg", "none");
  std::filesystem::create_directory(folder / ".git");
  std::filesystem::create_symlink("loop", folder / "loop");
}

TEST(EncodedImages, AreListedByClass) {
  const TemporaryFolder folder;
  make_folder(folder);
  const EncodedImages images = EncodedImages::open({folder.path()}, 3);
  ASSERT_EQ(images.size(), 3);
  EXPECT_EQ(images.name(0), folder / "dog/1.JPG");
  EXPECT_EQ(images.name(1), folder / "dog/2.jpeg");
  EXPECT_EQ(images.label(1), 1);
  EXPECT_EQ(images.label(2), 2);
  EXPECT_EQ(images.read(2), bytes_of(contents(folder / "eel/1.jpg")));
  EXPECT_THAT(images.identity(), testing::MatchesRegex("3 encoded images of fingerprint [0-9a-f]{16}"));
}

TEST(EncodedImages, AreReadFromArchives) {
  const TemporaryFolder folder;
  const std::string first = folder.file(
                        "a.tar", tar_file({{"x/1.cls", "1\n"}, {"x/1.jpg", "one"}, {"x/1.json", "{}"}})),
                    second = folder.file("b.tar", tar_file({{"x/2.png", "none"},
                                                            {"x/1.seg.jpg", "none"},
                                                            {"x/1.JPEG", "two"},
                                                            {"x/1.cls", " 0 "}}));
  const EncodedImages images = EncodedImages::open({first, second}, 2);
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images.label(0), 1);
  EXPECT_EQ(images.label(1), 0);
  EXPECT_EQ(images.read(0), bytes_of("one"));
  EXPECT_EQ(images.read(1), bytes_of("two"));
  EXPECT_EQ(images.name(1), second + ": x/1.JPEG");
  EXPECT_NE(images.identity(), EncodedImages::open({second, first}, 2).identity());
}

TEST(EncodedImages, AreSplitOnce) {
  const TemporaryFolder folder;
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back({std::to_string(i) + ".jpg", "x"});
    files.push_back({std::to_string(i) + ".cls", std::to_string(i / 10)});
  }
  const EncodedImages all = EncodedImages::open({folder.file("a.tar", tar_file(files))}, 4);
  const auto [held, rest] = all.split(0.26);
  EXPECT_EQ(held.size(), 10);
  EXPECT_EQ(rest.size(), 30);
  std::multiset<std::string> names;
  std::set<int64_t> classes;
  for (int64_t i = 0; i < held.size(); ++i) names.insert(held.name(i)), classes.insert(held.label(i));
  for (int64_t i = 0; i < rest.size(); ++i) names.insert(rest.name(i));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 40U);
  EXPECT_GT(classes.size(), 1U);  // not the last class alone
  EXPECT_EQ(held.identity(), all.split(0.26).first.identity());
}

TEST(EncodedImages, RefuseBadSources) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& paths, int64_t classes) {
    return message_of(folder, [&] { EncodedImages::open(paths, classes); });
  };
  const auto archive = [&](const std::vector<std::pair<std::string, std::string>>& files) {
    return refused({folder.file("a.tar", tar_file(files))}, 2);
  };
  EXPECT_EQ(archive({{"1.jpg", "x"}}), "2: a.tar: 1.jpg: has no class (1.cls, a number as text)");
  EXPECT_EQ(archive({{"1.jpg", "x"}, {"1.cls", "2"}}),
            "2: a.tar: 1.jpg: is of class 2, expected 0 to 1 (increase classes)");
  EXPECT_EQ(archive({{"1.jpg", "x"}, {"1.cls", "cat"}}),
            "2: a.tar: 1.cls: got \"cat\", expected the number of a class");
  EXPECT_EQ(archive({{"1.cls", "1"}}), "2: a.tar: has no .jpg or .jpeg files");
  EXPECT_EQ(archive({{"1.jpg", "x"}, {"1.cls", "1"}, {"1.cls", "0"}}), "2: a.tar: 1.cls: is there twice");
  EXPECT_EQ(archive({{"1.jpg", "x"}, {"1.cls", "1"}, {"1.jpeg", "y"}}), "2: a.tar: 1.jpeg: is there twice");
  EXPECT_EQ(refused({folder / "none.tar"}, 2), "2: none.tar: cannot be read: No such file or directory");
  std::filesystem::create_directory(folder / "images");
  EXPECT_EQ(refused({folder / "images"}, 2),
            "2: images: has no .jpg or .jpeg files in folders, one folder for each class");
  EXPECT_EQ(refused({folder / "images", folder / "a.tar"}, 2),
            "2: images: is given with others, expected one folder alone, or .tar archives alone");
  for (const char* name : {"images/a", "images/b", "images/c"})
    std::filesystem::create_directory(folder / name);
  EXPECT_EQ(refused({folder / "images"}, 2),
            "2: images/c: is of class 2, expected 0 to 1 (increase classes)");
}

using EncodedSamplesTest = Jpeg;

// In steps or at once, the same numbers; drawn anew in the next epoch, and the same for each run.
TEST_F(EncodedSamplesTest, AreTheSameInStepsAndAtOnce) {
  const TemporaryFolder folder;
  make_folder(folder);
  const EncodedSamples samples(EncodedImages::open({folder.path()}, 3), 8, 5, Crops::random);
  std::set<std::vector<float>> drawn;
  std::multiset<int64_t> labels;
  for (int64_t i = 0; i < 6; ++i) {
    std::vector<uint8_t> pixels(static_cast<size_t>(samples.pixels()));
    samples.decode(i, samples.file(i), pixels);
    std::vector<float> numbers(pixels.size());
    const sbp::Range whole[] = {{0, 3}, {0, 8}, {0, 8}};
    EXPECT_EQ(samples.read("images", i, whole, false, reinterpret_cast<std::byte*>(numbers.data())),
              3 * 8 * 8 * 4);
    for (size_t p = 0; p < pixels.size(); ++p)
      ASSERT_EQ(numbers[p], (static_cast<float>(pixels[p]) - 127.5F) / 63.75F) << p;
    drawn.insert(numbers);
    int64_t label = -1;
    EXPECT_EQ(samples.read("labels", i, {}, false, reinterpret_cast<std::byte*>(&label)), 8);
    labels.insert(label);
  }
  EXPECT_EQ(drawn.size(), 6U);
  EXPECT_THAT(labels, testing::ElementsAre(1, 1, 1, 1, 2, 2));
}

TEST_F(EncodedSamplesTest, NameAFileThatIsNoImage) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  folder.file("a/1.jpg", "text");
  const EncodedSamples samples(EncodedImages::open({folder.path()}, 1), 8, 5, Crops::middle);
  std::vector<uint8_t> pixels(static_cast<size_t>(samples.pixels()));
  EXPECT_THAT(message_of(folder, [&] { samples.decode(0, samples.file(0), pixels); }),
              testing::StartsWith("2: a/1.jpg: is no whole JPEG file: "));
}

}  // namespace
}  // namespace boxcar::tests
