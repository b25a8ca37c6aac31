// Named bytes that threads and processes of a machine share, as files of a folder; in memory if the system
// has /dev/shm. A file appears whole or not at all, even if its writer dies; there are no locks.
//
//   const Board board(new_folder());            // in another process: board(the same folder)
//   board.put("round.7.1", bytes);              // each name is put once, by one writer
//   board.find("round.7.0");                    // nothing: not yet
//
// Callable from any thread. Throws std::runtime_error if the folder is not writable.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace fake_nccl {

// Makes an empty folder, in TMPDIR if set; returns "" on failure. A killed process leaves its folder behind.
std::string new_folder();

class Board {
 public:
  explicit Board(std::string folder) : folder_(std::move(folder)) {}
  void put(const std::string& name, const std::string& bytes) const;
  std::optional<std::string> find(const std::string& name) const;
  void remove(const std::string& name) const;
  // Removes the folder too.
  void clear() const;

 private:
  const std::string folder_;
};

}  // namespace fake_nccl
