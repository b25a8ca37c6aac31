#include "backends/host/encoded_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

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

std::string lower(std::string_view name) {
  std::string text(name);
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}
bool is_archive(const std::string& path) { return lower(path).ends_with(".tar"); }
bool is_image(const std::string& name) {
  return name[0] != '.' && (lower(name).ends_with(".jpg") || lower(name).ends_with(".jpeg"));
}

// WebDataset's names: a sample's key goes up to the first dot of the last part of a name; the rest says which
// part of the sample the file is.
struct SampleFile {
  std::string_view key;
  std::string kind;  // "jpg", "cls"

  explicit SampleFile(std::string_view name) {
    const size_t folder = name.rfind('/');
    const size_t dot =
        std::min(name.find('.', folder == std::string_view::npos ? 0 : folder + 1), name.size());
    key = name.substr(0, dot);
    kind = lower(name.substr(std::min(dot + 1, name.size())));
  }
  bool is_image() const { return kind == "jpg" || kind == "jpeg"; }
};

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

  static void check(int64_t label, int64_t classes, const std::string& name) {
    if (label < 0 || label >= classes)
      throw Error::input(
          name, fmt::format("is of class {}, expected 0 to {} (increase classes)", label, classes - 1));
  }

  void list_folder(const std::string& path, int64_t classes) {
    folder = path;
    std::vector<std::string> names;
    for (const std::string& name : names_in(path))
      if (std::error_code none; name[0] != '.' && std::filesystem::is_directory(path + "/" + name, none))
        names.push_back(name);
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
    std::set<std::string, std::less<>> images;           // their keys
    for (TarEntry& entry : tar_entries(archive)) {
      const SampleFile file(entry.name);
      const bool label = file.kind == "cls";
      if (!label && !file.is_image()) continue;
      if (!(label ? labels.emplace(file.key, label_in(archive, entry)).second
                  : images.emplace(file.key).second))
        throw Error::input(path + ": " + entry.name, "is there twice");
      if (!label)
        files.push_back(
            {std::move(entry.name), 0, static_cast<int>(archives.size()) - 1, entry.offset, entry.size});
    }
    for (size_t i = before; i < files.size(); ++i) {
      const std::string where = path + ": " + files[i].name;
      const SampleFile file(files[i].name);
      const auto found = labels.find(file.key);
      if (found == labels.end())
        throw Error::input(where, fmt::format("has no class ({}.cls, a number as text)", file.key));
      check(found->second, classes, where);
      files[i].label = found->second;
    }
    if (files.size() == before) throw Error::input(path, "has no .jpg or .jpeg files");
  }

  static int64_t label_in(const InputFile& archive, const TarEntry& entry) {
    std::string text(static_cast<size_t>(std::min<int64_t>(entry.size, 32)), '\0');
    archive.read(entry.offset, std::as_writable_bytes(std::span(text)));
    constexpr const char* white = " \t\r\n";
    text.erase(std::min(text.find_last_not_of(white) + 1, text.size()));
    text.erase(0, std::min(text.find_first_not_of(white), text.size()));
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
  return is_archive(path) || std::filesystem::is_directory(path, none);
}

EncodedImages EncodedImages::open(const std::vector<std::string>& paths, int64_t classes) {
  auto files = std::make_shared<Files>();
  for (const std::string& path : paths) {
    if (is_archive(path))
      files->list_archive(path, classes);
    else if (paths.size() == 1)
      files->list_folder(path, classes);
    else
      throw Error::input(path, "is given with others, expected one folder alone, or .tar archives alone");
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
