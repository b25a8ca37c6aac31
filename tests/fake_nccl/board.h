// What threads and processes of a machine share: bytes by name, as files of a folder that is memory where the
// system has /dev/shm. They are there whole or not at all, whoever dies meanwhile; nobody holds a lock.
//
//   const Board board(new_folder());            // in another process: board(the same folder)
//   board.put("round.7.1", bytes);              // a name is put once, by one
//   board.find("round.7.0");                    // nothing: not yet
//
// From any thread. Throws std::runtime_error where the folder cannot be written to.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace fake_nccl {

// An empty folder that is new, in TMPDIR where that is set; empty: there can be none. Whoever is killed
// leaves it there.
std::string new_folder();

class Board {
 public:
  explicit Board(std::string folder) : folder_(std::move(folder)) {}
  void put(const std::string& name, const std::string& bytes) const;
  std::optional<std::string> find(const std::string& name) const;
  void remove(const std::string& name) const;
  // With the folder.
  void clear() const;

 private:
  const std::string folder_;
};

}  // namespace fake_nccl
