// What tests tell the library that stands in NCCL's place, beside NCCL's own functions. Found by dlsym.
#pragma once

extern "C" {

// Forgets all below. No communicator is there.
void fakeNcclReset();
// Communicators that have not been aborted.
int fakeNcclLive();
// Calls of NCCL's collectives, sends and receives since the reset, and groups of more than one.
int fakeNcclCalls();
int fakeNcclGroups();
// Receives by themselves, captured ones left out, that were launched before their sends since the reset.
int fakeNcclEarly();
// Communicators since the reset whose kernels are limited in their blocks.
int fakeNcclFewBlocks();
// Act number `act` of rank `rank`, counted from 0 by communicator, never ends; and its communicator then has
// the error `result`, where that is not 0.
void fakeNcclStop(int rank, int act, int result);
// The set-up of `rank` never ends.
void fakeNcclStopSetUp(int rank);
}
