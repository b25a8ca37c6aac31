#include "support/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

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

[[noreturn]] void become(std::string program, const std::vector<std::string>& arguments,
                         const std::string& folder) {
  std::vector<char*> argv;
  argv.push_back(program.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  redirect("/dev/null", STDIN_FILENO, O_RDONLY);
  redirect(folder + "/.out", STDOUT_FILENO, O_WRONLY | O_CREAT);
  redirect(folder + "/.err", STDERR_FILENO, O_WRONLY | O_CREAT);
  if (chdir(folder.c_str()) != 0) _exit(126);
  execv(program.c_str(), argv.data());
  _exit(127);
}

}  // namespace

Output run_program(const std::vector<std::string>& arguments) {
  return run_another(BOXCAR_PROGRAM, arguments);
}

Output run_another(const std::string& program, const std::vector<std::string>& arguments) {
  std::string folder = temporary_folder();
  pid_t child = fork();
  if (child == 0) become(program, arguments, folder);
  int status = 0;
  waitpid(child, &status, 0);
  Output output{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                content_of(folder + "/.out"), content_of(folder + "/.err")};
  std::filesystem::remove_all(folder);
  return output;
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
