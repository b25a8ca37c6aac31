// In place of store_read.cpp and store_write.cpp if SQLite was not found.
#include "sbp/error.h"
#include "sim/sweep/store.h"

namespace boxcar::sweep {
namespace {

[[noreturn]] void lacks_sqlite() {
  throw Error::cannot_run("", "this build lacks SQLite (install libsqlite3-dev, configure again and build)");
}

}  // namespace

struct RunsWriter::State {};

bool has_sqlite() { return false; }
RunsWriter::RunsWriter(const std::string&, const RunsFormat&, const std::string&,
                       const std::vector<std::string>&, std::function<void(const std::string&)>) {
  lacks_sqlite();
}
RunsWriter::~RunsWriter() = default;
const std::set<std::string>& RunsWriter::keys() const { lacks_sqlite(); }
void RunsWriter::add(const std::vector<RunRow>&) { lacks_sqlite(); }
RunsTable read_runs(const std::string&, const RunsFormat&, const RunsQuery&) { lacks_sqlite(); }
std::vector<std::string> runs_columns(const std::string&) { lacks_sqlite(); }
std::vector<std::string> asked_columns(const std::string&, const RunsFormat&) { lacks_sqlite(); }

}  // namespace boxcar::sweep
