#include "threads.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define ON_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ON_ASAN
#endif
#endif
#ifdef ON_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_cpu {
namespace {

constexpr size_t stack_bytes = size_t{128} << 10;
constexpr size_t lanes = 32;

// A place where execution continues. A fiber runs threads until one waits, stays with it, and continues when
// it can.
struct Place {
#ifdef __x86_64__
  void* top = nullptr;  // of its stack, where it paused
#else
  ucontext_t context;
#endif
  size_t thread = 0;
  void* stack = nullptr;
  size_t bytes = 0;
  void* sanitizer = nullptr;
};
struct Thread {
  enum { fresh, runs, at_block, at_warp, done } state = fresh;
  int64_t turn = 0;  // whose end it waits for
  Place* fiber = nullptr;
};
struct Warp {
  uint64_t given[2][lanes];  // by turn: a lane may be one turn ahead of those that have not read yet
  size_t came = 0;
  int64_t turn = 0;
};

// One block runs at a time, on one thread of the host.
const std::function<void()>* body = nullptr;
bool backwards = false;
std::vector<Thread> threads;
std::vector<Warp> warps;
size_t live = 0, came = 0;
int64_t turn = 0;
std::deque<Place> fibers;
std::vector<Place*> idle;
Place host, *running = nullptr;

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "CUDA on the CPU, block (%u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y,
               threadIdx.x, why);
  std::abort();
}

void arrive() {
#ifdef ON_ASAN
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(running->sanitizer, &stack, &bytes);
  if (!host.stack) host.stack = const_cast<void*>(stack), host.bytes = bytes;
#endif
}

void fiber_main();

#ifdef __x86_64__
// Saves the registers that a call preserves on the stack, whose top goes to *from, and returns on the stack
// `to`. The C library's contexts make system calls for the same, which take ten times as long.
extern "C" void cuda_on_cpu_go(void** from, void* to);
asm(R"(
  .text
cuda_on_cpu_go:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
void go(Place& from, Place& to) { cuda_on_cpu_go(&from.top, to.top); }
void prepare(Place& fiber) {
  void** const top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + fiber.bytes) - 2;
  *top = reinterpret_cast<void*>(&fiber_main);  // the return address, as on a stack left by a call
  fiber.top = top - 6;
}
#else
void go(Place& from, Place& to) { swapcontext(&from.context, &to.context); }
void prepare(Place& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = fiber.bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
}
#endif

void jump(Place& to) {
  Place& from = *running;
  if (&to == &from) return;
  running = &to;
#ifdef ON_ASAN
  __sanitizer_start_switch_fiber(&from.sanitizer, to.stack, to.bytes);
#endif
  go(from, to);
  arrive();
}

size_t in_order(size_t i) { return backwards ? threads.size() - 1 - i : i; }

Place& take_idle() {
  if (idle.empty()) {
    void* const stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) fail("no memory for its stack");
    Place& fiber = fibers.emplace_back();
    fiber.stack = stack;
    fiber.bytes = stack_bytes;
    prepare(fiber);
    idle.push_back(&fiber);
  }
  Place& fiber = *idle.back();
  idle.pop_back();
  return fiber;
}

bool can_go_on(size_t i) {
  const Thread& thread = threads[i];
  if (thread.state == Thread::at_block) return turn > thread.turn;
  if (thread.state == Thread::at_warp) return warps[i / lanes].turn > thread.turn;
  return thread.state == Thread::fresh;
}

// The next thread to run: first one of the same warp, which thus gets as far ahead of others as it can.
size_t next_after(size_t thread) {
  const size_t count = threads.size(), place = in_order(thread), warp = place / lanes * lanes;
  for (size_t i = 1; i <= lanes; ++i)
    if (const size_t other = in_order(warp + (place + i) % lanes); can_go_on(other)) return other;
  for (size_t i = 1; i <= count; ++i)
    if (const size_t other = in_order((place + i) % count); can_go_on(other)) return other;
  fail("threads of the block wait for each other");
}

void begin(Place& fiber, size_t thread) {
  fiber.thread = thread;
  threads[thread].fiber = &fiber;
  threads[thread].state = Thread::runs;
}

void jump_to(size_t thread) {
  if (threads[thread].state == Thread::fresh) begin(take_idle(), thread);
  jump(*threads[thread].fiber);
}

// Ignores threads that have returned.
void release_block() {
  if (came == 0 || came < live) return;
  came = 0;
  ++turn;
}

void wait() {
  const size_t mine = running->thread;
  jump_to(next_after(mine));
  threads[mine].state = Thread::runs;
  threadIdx.x = static_cast<unsigned>(mine);
}

void fiber_main() {
  arrive();
  for (;;) {
    const size_t thread = running->thread;
    threadIdx.x = static_cast<unsigned>(thread);
    (*body)();
    threads[thread].state = Thread::done;
    --live;
    release_block();
    const size_t next = live > 0 ? next_after(thread) : thread;
    if (threads[next].state == Thread::fresh) {
      begin(*running, next);
      continue;
    }
    idle.push_back(running);
    jump(live > 0 ? *threads[next].fiber : host);
  }
}

void run_block() {
  const size_t count = size_t{blockDim.x} * blockDim.y * blockDim.z;
  if (count % lanes != 0 || blockDim.x != count) fail("a block is a row of whole warps here");
  threads.assign(count, {});
  warps.assign(count / lanes, {});
  came = 0;
  turn = 0;
  live = count;
  running = &host;
  host.stack = nullptr;
  jump_to(in_order(0));
}

const uint64_t* wait_for_warp(unsigned mask, uint64_t given) {
  if (mask != 0xffffffffu) fail("a warp's lanes meet all together here");
  const size_t mine = running->thread;
  Warp& warp = warps[mine / lanes];
  threads[mine].state = Thread::at_warp;
  threads[mine].turn = warp.turn;
  uint64_t* const all = warp.given[warp.turn % 2];
  all[mine % lanes] = given;
  if (++warp.came == lanes) {
    warp.came = 0;
    ++warp.turn;
  }
  wait();
  return all;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  gridDim = grid;
  blockDim = block;
  body = &thread;
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t at = backwards ? blocks - 1 - i : i;
    blockIdx = dim3(static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                    static_cast<unsigned>(at / grid.x / grid.y));
    run_block();
  }
  backwards = !backwards;
}

uint64_t exchange(unsigned mask, uint64_t given, unsigned apart) {
  return wait_for_warp(mask, given)[(threadIdx.x % lanes) ^ apart];
}

unsigned vote(unsigned mask, bool given) {
  const uint64_t* const all = wait_for_warp(mask, given);
  unsigned votes = 0;
  for (size_t i = 0; i < lanes; ++i) votes |= static_cast<unsigned>(all[i]) << i;
  return votes;
}

}  // namespace cuda_on_cpu

void __syncthreads() {
  using namespace cuda_on_cpu;
  Thread& mine = threads[running->thread];
  mine.state = Thread::at_block;
  mine.turn = turn;
  ++came;
  release_block();
  wait();
}
