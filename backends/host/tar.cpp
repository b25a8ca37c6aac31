#include "backends/host/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

constexpr int64_t block = 512;        // bytes; headers and contents fill whole blocks
constexpr int64_t longest = 1 << 16;  // bytes of a name or of a pax header

// A header's fields, at POSIX's offsets.
struct Header {
  std::array<char, block> bytes{};

  std::string_view text(size_t begin, size_t size) const {
    const std::string_view field(bytes.data() + begin, size);
    return field.substr(0, std::min(field.find('\0'), size));
  }
  // Octal digits, with spaces around them.
  std::optional<int64_t> number(size_t begin, size_t size) const {
    std::string_view field = text(begin, size);
    field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
    field = field.substr(0, field.find(' '));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
    if (error != std::errc() || end != field.data() + field.size() || value < 0) return std::nullopt;
    return value;
  }
  bool is_zero() const {
    return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
  }
  bool is_whole() const {
    int64_t sum = 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bytes[i]);
    return number(148, 8) == sum;
  }
  char type() const { return bytes[156]; }
  std::string name() const {
    // GNU's own format has "ustar " there, and other fields in place of the folder.
    const std::string_view folder = text(257, 6) == "ustar" ? text(345, 155) : "";
    return folder.empty() ? std::string(text(0, 100)) : fmt::format("{}/{}", folder, text(0, 100));
  }
};

// Properties of the next file that a header of pax or GNU gives.
struct Said {
  std::string name;
  std::optional<int64_t> size;
};

class TarReader {
 public:
  explicit TarReader(const InputFile& archive) : archive_(archive) {}

  std::vector<TarEntry> entries() {
    for (Header header; next(header);) {
      const int64_t size = size_of(header);
      const char type = header.type();
      if (type == 'L' || type == 'x') {
        const std::string content = content_of(size);
        if (type == 'L')
          said_.name = content.substr(0, content.find('\0'));
        else
          read_pax(content);
      } else if (type == 'S') {
        refuse("has a sparse file, which is not read");
      } else if (type != 'g') {
        if (type == '0' || type == '\0' || type == '7')
          entries_.push_back({said_.name.empty() ? header.name() : said_.name, at_, size});
        said_ = {};
      }
      skip(size);
    }
    return std::move(entries_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error::input(archive_.path(), fmt::format("{} (at byte {})", why, at_));
  }

  // An archive ends at a block of zeros, or at the end of its file.
  bool next(Header& header) {
    if (at_ == archive_.size() && at_ > 0) return false;
    if (archive_.size() - at_ < block) refuse("is no whole tar archive: a header is cut off");
    archive_.read(at_, std::as_writable_bytes(std::span(header.bytes)));
    if (header.is_zero()) return false;
    if (!header.is_whole()) refuse("is no tar archive, or a compressed one (unpack it to .tar)");
    at_ += block;
    return true;
  }

  int64_t size_of(const Header& header) {
    const bool is_file = header.type() != 'L' && header.type() != 'x' && header.type() != 'g';
    const auto size = is_file && said_.size ? said_.size : header.number(124, 12);
    if (!size) refuse("has a file whose size is not written as an octal number");
    if (*size > archive_.size() - at_) refuse("is no whole tar archive: a file is cut off");
    return *size;
  }

  std::string content_of(int64_t size) const {
    if (size > longest) refuse(fmt::format("has a header of {} bytes", size));
    std::string content(static_cast<size_t>(size), '\0');
    archive_.read(at_, std::as_writable_bytes(std::span(content)));
    return content;
  }

  // Records "27 path=train/0001.jpg\n", each with its length in front.
  void read_pax(std::string_view content) {
    while (!content.empty()) {
      size_t length = 0;
      const auto [end, error] = std::from_chars(content.data(), content.data() + content.size(), length);
      const auto digits = static_cast<size_t>(end - content.data());
      if (error != std::errc() || length > content.size() || length < digits + 3 || *end != ' ')
        refuse("has a pax header that cannot be read");
      const std::string_view record = content.substr(digits + 1, length - digits - 2);
      const size_t equals = std::min(record.find('='), record.size());
      const std::string_view key = record.substr(0, equals);
      const std::string_view value = record.substr(std::min(equals + 1, record.size()));
      if (key.starts_with("GNU.sparse")) refuse("has a sparse file, which is not read");
      if (key == "path") said_.name = value;
      if (key == "size") {
        int64_t size = -1;
        std::from_chars(value.data(), value.data() + value.size(), size);
        if (size < 0) refuse("has a pax header that cannot be read");
        said_.size = size;
      }
      content.remove_prefix(length);
    }
  }

  void skip(int64_t size) {
    const int64_t whole = (size + block - 1) / block * block;
    at_ = std::min(at_ + whole, archive_.size());  // the last file of some archives fills no whole block
  }

  const InputFile& archive_;
  int64_t at_ = 0;
  Said said_;
  std::vector<TarEntry> entries_;
};

}  // namespace

std::vector<TarEntry> tar_entries(const InputFile& archive) { return TarReader(archive).entries(); }

}  // namespace boxcar::backends::host
