// Child processes that end when their parent does.
//
//   if (const pid_t child = start_child(); child == 0) {
//     ...
//     _exit(0);  // nothing of the parent's is flushed or closed twice
//   }
#pragma once

#include <sys/types.h>

#include <string>

namespace boxcar::sweep {

// 0 in the child. It is killed when this process dies; no other thread of this process may run. Throws Error
// (fault) if no process can be started.
pid_t start_child();

// A waited-for child's end: "ended by signal 9 (Killed)", "ended with code 1".
std::string end_text(int status);

}  // namespace boxcar::sweep
