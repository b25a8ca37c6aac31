// States that a machine crash may leave on disk, by a weak model of file systems in the manner of ALICE
// (Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014).
//
//   Disk disk("/dev/shm/t");                          // what is there now is on disk
//   Disk disk("/dev/shm/t");                          // its present contents are on disk
//     disk.apply(call);
//     disk.each_state(10000, [](const DiskState& state) { ... });   // crashed here
//   }
//
// Writes to a file since its last flush survive wholly, in part, as zeros, in another order or not at all.
// Each name that was made, moved or removed in a folder since its last flush is independently as before or as
// after. A rename or exchange inside a folder is one change. Nothing else is promised: a file's name may
// appear before its bytes, and one folder's names before or after another's.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/recorded_calls.h"

namespace boxcar::tests {

// Contents by path below the root; folders end with a slash.
using DiskState = std::map<std::string, std::string>;

inline void put_on_disk(const DiskState& state, const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::directory_iterator(root)) std::filesystem::remove_all(entry);
  for (const auto& [path, bytes] : state) {  // a folder sorts before its contents
    if (path.ends_with('/'))
      std::filesystem::create_directory(root / path.substr(0, path.size() - 1));
    else
      std::ofstream(root / path, std::ios::binary) << bytes;
  }
}

inline DiskState state_of(const std::filesystem::path& root) {
  DiskState state;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path().lexically_relative(root).string();
    if (entry.is_directory()) {
      state[path + "/"];
    } else {
      std::ifstream in(entry.path(), std::ios::binary);
      state[path] = {std::istreambuf_iterator<char>(in), {}};
    }
  }
  return state;
}

class Disk {
 public:
  explicit Disk(std::filesystem::path root) : root_(std::move(root)) {
    nodes_.emplace_back(true);
    for (const auto& [path, bytes] : state_of(root_)) {
      const bool folder = path.ends_with('/');
      Node node(folder);
      node.bytes = node.flushed_bytes = bytes;
      const auto [in, name] = place(root_ / path.substr(0, path.size() - (folder ? 1 : 0)));
      nodes_[in].names[name] = nodes_[in].flushed_names[name] = nodes_.size();
      nodes_.push_back(std::move(node));
    }
  }

  // Ignores calls outside the root.
  void apply(const FileCall& call) {
    using Kind = FileCall::Kind;
    if (!is_inside(call.path)) return;
    if (call.kind == Kind::flush) return flush(nodes_.at(find(call.path)));
    if (call.kind == Kind::truncate || call.kind == Kind::write) {
      Node& node = nodes_.at(find(call.path));
      node.writes.push_back({call.kind == Kind::truncate, call.offset, call.bytes});
      node.writes.back().on(node.bytes);
      return;
    }
    const auto [folder, name] = place(call.path);
    Change change;
    if (call.kind == Kind::create || call.kind == Kind::make_folder) {
      change = {{name, nodes_.size()}};
      nodes_.emplace_back(call.kind == Kind::make_folder);
    } else if (call.kind == Kind::remove || call.kind == Kind::remove_folder) {
      change = {{name, none}};
    } else {
      const auto [there, to] = place(call.to);
      if (there != folder) throw std::runtime_error("renames between folders are not known here");
      const bool exchange = call.kind == Kind::exchange;
      change = {{name, exchange ? find(call.to) : none}, {to, find(call.path)}};
    }
    make(change, nodes_[folder].names);
    nodes_[folder].changes.push_back(std::move(change));
  }

  // The state that running processes see.
  DiskState now() const {
    DiskState state;
    const auto last = [](size_t options) { return options - 1; };
    walk(0, "", state, last);
    return state;
  }

  // Every state, some of them repeatedly. If there are more than `most`: the first `most`, and as many drawn
  // at random.
  void each_state(size_t most, const std::function<void(const DiskState&)>& visit) const {
    std::vector<std::pair<size_t, size_t>> choices;  // option taken, number of options
    for (size_t states = 0; states < most; ++states) {
      size_t at = 0;
      DiskState state;
      walk(0, "", state, [&](size_t options) {
        if (at == choices.size()) choices.emplace_back(0, options);
        return choices[at++].first;
      });
      visit(state);
      while (!choices.empty() && choices.back().first + 1 == choices.back().second) choices.pop_back();
      if (choices.empty()) return;
      ++choices.back().first;
    }
    std::mt19937_64 random(1);
    for (size_t states = 0; states < most; ++states) {
      DiskState state;
      walk(0, "", state, [&](size_t options) { return random() % options; });
      visit(state);
    }
  }

 private:
  static constexpr size_t none = static_cast<size_t>(-1);
  using Names = std::map<std::string, size_t>;
  using Change = std::vector<std::pair<std::string, size_t>>;
  using Pick = std::function<size_t(size_t options)>;

  struct Write {
    bool truncates;
    int64_t offset;
    std::string bytes;
    void on(std::string& file) const {
      if (truncates) return file.clear();
      const auto at = static_cast<size_t>(offset);
      file.resize(std::max(file.size(), at + bytes.size()), '\0');
      file.replace(at, bytes.size(), bytes);
    }
  };
  struct Node {
    explicit Node(bool is_folder) : folder(is_folder) {}
    bool folder;
    Names names, flushed_names;
    std::vector<Change> changes;
    std::string bytes, flushed_bytes;
    std::vector<Write> writes;
  };

  static void make(const Change& change, Names& names) {
    for (const auto& [name, node] : change)
      if (node == none)
        names.erase(name);
      else
        names[name] = node;
  }
  static void flush(Node& node) {
    node.flushed_names = node.names, node.flushed_bytes = node.bytes;
    node.changes.clear(), node.writes.clear();
  }

  bool is_inside(const std::filesystem::path& path) const {
    const std::string below = path.lexically_relative(root_).string();
    return !below.empty() && !below.starts_with("..");
  }
  size_t find(const std::filesystem::path& path) const {
    size_t node = 0;
    for (const auto& name : path.lexically_relative(root_))
      if (name != ".") node = nodes_.at(node).names.at(name);
    return node;
  }
  std::pair<size_t, std::string> place(const std::filesystem::path& path) const {
    return {find(path.parent_path()), path.filename()};
  }

  // Contents that a file may have; the last is the one written.
  static std::vector<std::string> contents(const Node& node) {
    std::vector<std::string> all{node.flushed_bytes};
    if (node.writes.empty()) return all;
    const auto after = [&](size_t from, size_t to) {
      std::string file = node.flushed_bytes;
      for (size_t w = from; w < to; ++w) node.writes[w].on(file);
      return file;
    };
    const size_t writes = node.writes.size();
    for (size_t w = 1; w < writes; ++w) all.push_back(after(0, w));  // the first ones
    all.push_back(after(writes - 1, writes));                        // the last one before the others
    std::string zeros = node.flushed_bytes, torn = node.bytes;
    zeros.resize(node.bytes.size(), '\0');
    all.push_back(zeros);  // its size before its bytes
    torn.erase(torn.size() - std::min(torn.size(), node.writes.back().bytes.size() / 2));
    all.push_back(torn);
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase(all, node.bytes);
    all.push_back(node.bytes);
    return all;
  }

  void walk(size_t at, const std::string& path, DiskState& state, const Pick& pick) const {
    const Node& node = nodes_[at];
    if (!node.folder) {
      const std::vector<std::string> options = contents(node);
      state[path] = options[options.size() == 1 ? 0 : pick(options.size())];
      return;
    }
    if (!path.empty()) state[path + "/"];
    Names names = node.flushed_names;
    for (const Change& change : node.changes)
      if (pick(2) == 1) make(change, names);
    for (const auto& [name, child] : names) walk(child, path.empty() ? name : path + "/" + name, state, pick);
  }

  std::filesystem::path root_;
  std::vector<Node> nodes_;
};

}  // namespace boxcar::tests
