#include "backends/host/encoded_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "backends/host/crop.h"
#include "backends/host/files.h"
#include "backends/host/fingerprint.h"
#include "backends/host/images.h"
#include "backends/host/tar.h"
#include "backends/jpeg/jpeg.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

bool ends_as(std::string_view name, std::string_view end) {
  return name.size() > end.size() &&
         std::equal(end.rbegin(), end.rend(), name.rbegin(), [](char want, char has) {
           return want == (has >= 'A' && has <= 'Z' ? has - 'A' + 'a' : has);
         });
}
bool is_image(std::string_view name) { return ends_as(name, ".jpg") || ends_as(name, ".jpeg"); }

// WebDataset's: up to the first dot of the last part of the name.
std::string_view key_of(std::string_view name) {
  const size_t folder = name.rfind('/');
  return name.substr(0, name.find('.', folder == std::string_view::npos ? 0 : folder));
}

}  // namespace

// An image lies in an archive, or is a file of its own.
struct EncodedImages::Files {
  struct File {
    std::string name;  // in the folder or the archive
    int64_t label = 0;
    int archive = -1;
    int64_t offset = 0, size = 0;  // in it
  };
  std::string folder;
  std::vector<std::unique_ptr<InputFile>> archives;
  std::vector<File> files;

  void check(int64_t label, int64_t classes, const std::string& name) const {
    if (label < 0 || label >= classes)
      throw Error::input(
          name, fmt::format("is of class {}, expected one below classes {} (use a larger classes)", label,
                            classes));
  }

  void list_folder(const std::string& path, int64_t classes) {
    folder = path;
    std::vector<std::string> names;
    for (const std::string& name : names_in(path))
      if (std::filesystem::is_directory(path + "/" + name)) names.push_back(name);
    std::sort(names.begin(), names.end());
    for (size_t label = 0; label < names.size(); ++label) {
      check(static_cast<int64_t>(label), classes, path + "/" + names[label]);
      std::vector<std::string> images = names_in(path + "/" + names[label]);
      std::erase_if(images, [](const std::string& name) { return !is_image(name); });
      std::sort(images.begin(), images.end());
      for (const std::string& image : images)
        files.push_back({names[label] + "/" + image, static_cast<int64_t>(label)});
    }
    if (files.empty())
      throw Error::input(path, "has no .jpg or .jpeg files in folders, one folder for each class");
  }

  void list_archive(const std::string& path, int64_t classes) {
    archives.push_back(std::make_unique<InputFile>(path));
    const InputFile& archive = *archives.back();
    const size_t before = files.size();
    std::map<std::string, int64_t, std::less<>> labels;  // by key
    for (TarEntry& entry : tar_entries(archive)) {
      if (ends_as(entry.name, ".cls")) labels.emplace(key_of(entry.name), label_in(archive, entry));
      if (is_image(entry.name))
        files.push_back(
            {std::move(entry.name), 0, static_cast<int>(archives.size()) - 1, entry.offset, entry.size});
    }
    for (size_t i = before; i < files.size(); ++i) {
      const std::string where = path + ": " + files[i].name;
      const auto found = labels.find(key_of(files[i].name));
      if (found == labels.end())
        throw Error::input(where,
                           fmt::format("has no class ({}.cls, a number as text)", key_of(files[i].name)));
      check(found->second, classes, where);
      files[i].label = found->second;
    }
    if (files.size() == before) throw Error::input(path, "has no .jpg or .jpeg files");
  }

  static int64_t label_in(const InputFile& archive, const TarEntry& entry) {
    std::string text(static_cast<size_t>(std::min<int64_t>(entry.size, 32)), '\0');
    archive.read(entry.offset, std::as_writable_bytes(std::span(text)));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
      text.pop_back();
    int64_t label = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (error != std::errc() || end != text.data() + text.size() || entry.size > 32)
      throw Error::input(archive.path() + ": " + entry.name,
                         fmt::format("got \"{}\", expected the number of a class", text));
    return label;
  }
};

EncodedImages::EncodedImages(std::shared_ptr<const Files> files, std::vector<int64_t> order)
    : files_(std::move(files)), order_(std::move(order)) {}

bool EncodedImages::holds(const std::string& path) {
  std::error_code none;
  return path.ends_with(".tar") || std::filesystem::is_directory(path, none);
}

EncodedImages EncodedImages::open(const std::vector<std::string>& paths, int64_t classes) {
  auto files = std::make_shared<Files>();
  for (const std::string& path : paths) {
    if (path.ends_with(".tar"))
      files->list_archive(path, classes);
    else if (paths.size() == 1)
      files->list_folder(path, classes);
    else
      throw Error::input(path, "beside others, expected one folder of images, or .tar archives alone");
  }
  std::vector<int64_t> order(files->files.size());
  std::iota(order.begin(), order.end(), 0);
  return {std::move(files), std::move(order)};
}

int64_t EncodedImages::label(int64_t index) const { return at(files_->files, at(order_, index)).label; }

std::string EncodedImages::name(int64_t index) const {
  const Files::File& file = at(files_->files, at(order_, index));
  return file.archive < 0 ? files_->folder + "/" + file.name
                          : at(files_->archives, file.archive)->path() + ": " + file.name;
}

std::vector<std::byte> EncodedImages::read(int64_t index) const {
  const Files::File& file = at(files_->files, at(order_, index));
  std::vector<std::byte> bytes;
  if (file.archive >= 0) {
    bytes.resize(static_cast<size_t>(file.size));
    at(files_->archives, file.archive)->read(file.offset, bytes);
  } else {
    const InputFile alone(name(index));
    bytes.resize(static_cast<size_t>(alone.size()));
    alone.read(0, bytes);
  }
  return bytes;
}

std::string EncodedImages::identity() const {
  std::string all;
  for (const int64_t i : order_)
    all += fmt::format("{} {}\n", at(files_->files, i).name, at(files_->files, i).label);
  return fmt::format("{} encoded images of fingerprint {:016x}", size(), fingerprint(all));
}

std::pair<EncodedImages, EncodedImages> EncodedImages::split(double fraction) const {
  const auto held = static_cast<int64_t>(fraction * static_cast<double>(size()));
  std::vector<int64_t> parts[2];
  for (int64_t i = 0; i < size(); ++i)
    parts[shuffled_place(i, size(), 0) < held ? 0 : 1].push_back(at(order_, i));
  return {{files_, std::move(parts[0])}, {files_, std::move(parts[1])}};
}

EncodedSamples::EncodedSamples(EncodedImages images, int64_t image, int64_t seed, Crops crops)
    : images_(std::move(images)), image_(image), seed_(seed), crops_(crops) {}

std::vector<std::byte> EncodedSamples::file(int64_t index) const { return images_.read(place(index)); }

void EncodedSamples::decode(int64_t index, std::span<const std::byte> file, std::span<uint8_t> pixels) const {
  const std::string name = images_.name(place(index));
  const jpeg::Size size = jpeg::size_of(file, name);
  const uint64_t key = mix(mix(static_cast<uint64_t>(seed_)) ^ static_cast<uint64_t>(index));
  const Crop crop = crops_ == Crops::random ? random_crop(size.width, size.height, key)
                                            : middle_crop(size.width, size.height);
  const double scale = static_cast<double>(image_) / static_cast<double>(std::min(crop.width, crop.height));
  const jpeg::Picture picture = jpeg::decode(file, scale, name);
  resize(picture, scaled(crop, size, {picture.width, picture.height}), image_, pixels);
}

int64_t EncodedSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges,
                             bool wide, std::byte* out) const {
  if (input == "labels") {
    const int64_t label = images_.label(place(index));
    std::memcpy(out, &label, sizeof label);
    return sizeof label;
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(pixels()));
  decode(index, file(index), bytes);
  return write_numbers(bytes, image_, ranges, wide, out);
}

}  // namespace boxcar::backends::host
