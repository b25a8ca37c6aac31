#include "backends/host/tar.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "support/picture_files.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::InputFile;
using backends::host::tar_entries;
using testing::ElementsAre;

// Name and content of each file.
std::vector<std::string> files_in(const std::string& path) {
  const InputFile archive(path);
  std::vector<std::string> all;
  for (const auto& entry : tar_entries(archive)) {
    std::string content(static_cast<size_t>(entry.size), '\0');
    archive.read(entry.offset, std::as_writable_bytes(std::span(content)));
    all.push_back(entry.name + "=" + content);
  }
  return all;
}

TEST(Tar, ListsFilesWithTheirBytes) {
  const TemporaryFolder folder;
  const std::string long_content(1500, 'x');
  const std::string path =
      folder.file("a.tar", tar_file({{"a", ""}, {"b/c.txt", "hello"}, {"d", long_content}}));
  EXPECT_THAT(files_in(path), ElementsAre("a=", "b/c.txt=hello", "d=" + long_content));
}

#ifdef BOXCAR_PYTHON
// Python writes ustar's prefixes, GNU's long names and pax headers as other programs do; folders and links
// are left out.
TEST(Tar, ReadsWhatOtherProgramsWrite) {
  const TemporaryFolder folder;
  const std::string name = std::string(90, 'n') + "/" + std::string(90, 'm') + ".jpg", script = R"(
import io, sys, tarfile
for kind in ("USTAR", "GNU", "PAX"):
    with tarfile.open(f"{sys.argv[1]}/{kind}.tar", "w", format=getattr(tarfile, kind + "_FORMAT")) as tar:
        folder = tarfile.TarInfo("folder"); folder.type = tarfile.DIRTYPE; tar.addfile(folder)
        link = tarfile.TarInfo("link"); link.type = tarfile.SYMTYPE; link.linkname = "a"; tar.addfile(link)
        for name, content in (("a", b"1"), (sys.argv[2], b"22"), ("z", b"")):
            info = tarfile.TarInfo(name); info.size = len(content); info.mtime = 1.5 if kind == "PAX" else 1
            tar.addfile(info, io.BytesIO(content))
)";
  const std::string program = folder.file("write.py", script);
  const std::string command = std::string(BOXCAR_PYTHON) + " " + program + " " + folder.path() + " " + name;
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const char* kind : {"USTAR", "GNU", "PAX"})
    EXPECT_THAT(files_in(folder / (std::string(kind) + ".tar")), ElementsAre("a=1", name + "=22", "z="))
        << kind;
}
#endif

TEST(Tar, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& content) {
    const std::string path = folder.file("a.tar", content);
    return message_of(folder, [&] { tar_entries(InputFile(path)); });
  };
  const std::string whole = tar_file({{"a", std::string(600, 'x')}});
  EXPECT_EQ(refused(""), "2: a.tar: is no whole tar archive: a header is cut off (at byte 0)");
  EXPECT_EQ(refused(whole.substr(0, 300)),
            "2: a.tar: is no whole tar archive: a header is cut off (at byte 0)");
  EXPECT_EQ(refused(whole.substr(0, 1000)),
            "2: a.tar: is no whole tar archive: a file is cut off (at byte 512)");
  EXPECT_EQ(refused(std::string(512, 'x')),
            "2: a.tar: is no tar archive, or a compressed one (unpack it to .tar) (at byte 0)");
  std::string changed = whole;
  changed[130] = '8';  // of its size; the sum of the header no longer holds
  EXPECT_EQ(refused(changed),
            "2: a.tar: is no tar archive, or a compressed one (unpack it to .tar) (at byte 0)");
  changed[0] = static_cast<char>(changed[0] - ('8' - whole[130]));
  EXPECT_EQ(refused(changed),
            "2: a.tar: has a file whose size is not written as an octal number (at byte 512)");
}

// Zeros that a sparse file leaves out would be missing.
TEST(Tar, RefusesSparseFiles) {
  const TemporaryFolder folder;
  std::string sparse = tar_file({{"a", "1"}});
  sparse[0] = static_cast<char>(sparse[0] - ('S' - sparse[156]));  // the sum of the header stays
  sparse[156] = 'S';
  const std::string path = folder.file("a.tar", sparse);
  EXPECT_EQ(message_of(folder, [&] { tar_entries(InputFile(path)); }),
            "2: a.tar: has a sparse file, which is not read (at byte 512)");
}

// The end of an archive may be lost where no file is.
TEST(Tar, NeedsNoBlocksOfZerosAtItsEnd) {
  const TemporaryFolder folder;
  const std::string whole = tar_file({{"a", "1"}});
  EXPECT_THAT(files_in(folder.file("a.tar", whole.substr(0, 1024))), ElementsAre("a=1"));
}

}  // namespace
}  // namespace boxcar::tests
