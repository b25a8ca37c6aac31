#include "support/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace boxcar::tests {

std::string temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "boxcar-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  return name;
}

namespace {

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void redirect(const std::string& path, int target, int flags) {
  int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 || dup2(fd, target) < 0) _exit(126);
}

}  // namespace

Output run_in_child(const std::function<int()>& body) {
  const std::string folder = temporary_folder();
  std::fflush(nullptr);  // what is held back would be written by both
  const pid_t child = fork();
  if (child == 0) {
    redirect("/dev/null", STDIN_FILENO, O_RDONLY);
    redirect(folder + "/.out", STDOUT_FILENO, O_WRONLY | O_CREAT);
    redirect(folder + "/.err", STDERR_FILENO, O_WRONLY | O_CREAT);
    if (chdir(folder.c_str()) != 0) _exit(126);
    int code = 125;  // an exception must not go on in the test's place
    try {
      code = body();
    } catch (...) {
    }
    std::fflush(nullptr);
    _exit(code);  // without destroying what SimGrid and GoogleTest hold
  }
  int status = 0;
  waitpid(child, &status, 0);
  Output output{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                content_of(folder + "/.out"), content_of(folder + "/.err")};
  std::filesystem::remove_all(folder);
  return output;
}

std::vector<char*> words_of(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  return words;
}

Output run_another(const std::string& program, const std::vector<std::string>& arguments) {
  return run_in_child([&] {
    execv(program.c_str(), words_of(program, arguments).data());
    return 127;
  });
}

TemporaryFile::TemporaryFile(const std::string& name, const std::string& content)
    : folder_(temporary_folder()), path_(folder_ + "/" + name) {
  std::ofstream(path_, std::ios::binary) << content;
}

TemporaryFile::~TemporaryFile() { std::filesystem::remove_all(folder_); }

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace boxcar::tests
