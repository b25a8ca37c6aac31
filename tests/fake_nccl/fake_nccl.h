// Calls by which tests control the fake NCCL library, beside NCCL's own functions. Found by dlsym.
#pragma once

extern "C" {

// Resets everything below. Only while no communicator exists.
void fakeNcclReset();
// Communicators that have not been aborted.
int fakeNcclLive();
// Calls of NCCL's collectives, sends and receives since the reset, and groups of several calls.
int fakeNcclCalls();
int fakeNcclGroups();
// Uncaptured receives outside groups that were launched before their sends, since the reset.
int fakeNcclEarly();
// The most multiprocessors that a collective of a communicator created since the reset has.
int fakeNcclMostBlocks();
// Act number `act` of rank `rank`, counted from 0 by communicator, never ends. Its communicator then has the
// error `result` unless that is 0.
void fakeNcclStop(int rank, int act, int result);
// The call that launches act number `act` of rank `rank`, counted from 0 by communicator, does not return
// before its communicator is aborted; with `for_ever` never.
void fakeNcclStick(int rank, int act, bool for_ever);
// The set-up of `rank` never ends.
void fakeNcclStopSetUp(int rank);
}
