#include "backends/host/crop.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/random.h"
#include "sbp/at.h"

namespace boxcar::backends::host {
namespace {

constexpr double least_area = 0.08, least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
constexpr int draws = 10;

class Draws {
 public:
  explicit Draws(uint64_t key) : state_(mix(key)) {}
  // Evenly in [low, high).
  double number(double low, double high) {
    state_ = mix(state_);
    return low + (high - low) * static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  int64_t whole(int64_t most) {  // 0 to most
    return std::min(static_cast<int64_t>(number(0, static_cast<double>(most) + 1)), most);
  }

 private:
  uint64_t state_;
};

Crop in_the_middle(int64_t width, int64_t height, int64_t w, int64_t h) {
  return {(width - w) / 2, (height - h) / 2, w, h, false};
}

int64_t rounded(double value) { return std::max<int64_t>(std::llround(value), 1); }

// By which pixels of a line, and with which shares, each of `count` results is averaged.
struct Filter {
  std::vector<int64_t> first;
  std::vector<std::vector<float>> shares;
};

Filter triangles(int64_t begin, int64_t size, int64_t count, bool mirrored) {
  Filter filter;
  const double step = static_cast<double>(size) / static_cast<double>(count), reach = std::max(step, 1.0);
  for (int64_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(mirrored ? count - 1 - i : i) + 0.5) * step;
    const auto low = std::max<int64_t>(static_cast<int64_t>(std::floor(centre - reach)), 0);
    const auto high = std::min<int64_t>(static_cast<int64_t>(std::ceil(centre + reach)), size);
    std::vector<float> shares;
    float sum = 0;
    for (int64_t j = low; j < high; ++j) {
      const double away = std::abs(static_cast<double>(j) + 0.5 - centre) / reach;
      shares.push_back(static_cast<float>(std::max(1 - away, 0.0)));
      sum += shares.back();
    }
    for (float& share : shares) share /= sum;
    filter.first.push_back(begin + low);
    filter.shares.push_back(std::move(shares));
  }
  return filter;
}

}  // namespace

Crop random_crop(int64_t width, int64_t height, uint64_t key) {
  Draws draw(key);
  const bool mirrored = draw.number(0, 1) < 0.5;
  const double area = static_cast<double>(width * height);
  for (int i = 0; i < draws; ++i) {
    const double share = area * draw.number(least_area, 1);
    const double ratio = std::exp(draw.number(std::log(least_ratio), std::log(most_ratio)));
    const int64_t w = rounded(std::sqrt(share * ratio)), h = rounded(std::sqrt(share / ratio));
    if (w > width || h > height) continue;
    const int64_t left = draw.whole(width - w), top = draw.whole(height - h);
    return {left, top, w, h, mirrored};
  }
  const auto limit = [](int64_t side, double most) {
    return std::max<int64_t>(static_cast<int64_t>(static_cast<double>(side) * most), 1);
  };
  Crop crop = in_the_middle(width, height, std::min(width, limit(height, most_ratio)),
                            std::min(height, limit(width, 1 / least_ratio)));
  crop.mirrored = mirrored;
  return crop;
}

Crop middle_crop(int64_t width, int64_t height) {
  const int64_t side = rounded(static_cast<double>(std::min(width, height)) * 224 / 256);
  return in_the_middle(width, height, side, side);
}

Crop scaled(const Crop& crop, jpeg::Size from, jpeg::Size to) {
  const auto edge = [](int64_t at, int64_t whole, int64_t now) {
    return std::llround(static_cast<double>(at) * static_cast<double>(now) / static_cast<double>(whole));
  };
  Crop result = crop;
  result.left = std::min<int64_t>(edge(crop.left, from.width, to.width), to.width - 1);
  result.top = std::min<int64_t>(edge(crop.top, from.height, to.height), to.height - 1);
  result.width = std::max<int64_t>(edge(crop.left + crop.width, from.width, to.width) - result.left, 1);
  result.height = std::max<int64_t>(edge(crop.top + crop.height, from.height, to.height) - result.top, 1);
  return result;
}

void resize(const jpeg::Picture& picture, const Crop& crop, int64_t image, std::span<uint8_t> planes) {
  const Filter columns = triangles(crop.left, crop.width, image, crop.mirrored),
               rows = triangles(crop.top, crop.height, image, false);
  const auto line = static_cast<size_t>(3 * image);
  std::vector<float> narrow(static_cast<size_t>(crop.height) * line);  // [height, image, 3]
  for (int64_t y = 0; y < crop.height; ++y) {
    const uint8_t* const from = picture.rgb.data() + (crop.top + y) * picture.width * 3;
    float* to = narrow.data() + static_cast<size_t>(y) * line;
    for (int64_t x = 0; x < image; ++x, to += 3) {
      float sum[3] = {};
      const uint8_t* pixel = from + 3 * at(columns.first, x);
      for (const float share : at(columns.shares, x))
        for (float& colour : sum) colour += share * static_cast<float>(*pixel++);
      std::copy_n(sum, 3, to);
    }
  }
  std::vector<float> sums(line);
  for (int64_t y = 0; y < image; ++y) {
    std::fill(sums.begin(), sums.end(), 0.5F);  // to round
    const float* from = narrow.data() + static_cast<size_t>(at(rows.first, y) - crop.top) * line;
    for (const float share : at(rows.shares, y)) {
      for (size_t i = 0; i < line; ++i) sums[i] += share * from[i];
      from += line;
    }
    for (size_t i = 0; i < line; ++i)
      planes[(i % 3 * static_cast<size_t>(image) + static_cast<size_t>(y)) * static_cast<size_t>(image) +
             i / 3] = static_cast<uint8_t>(std::clamp(sums[i], 0.0F, 255.0F));
  }
}

}  // namespace boxcar::backends::host
