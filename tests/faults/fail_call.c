// A library that is loaded before a program (LD_PRELOAD) and makes one of its calls of the system go
// wrong. It counts calls from the moment main() begins, by kind, and does to the n-th of a kind what it
// was told.
//
// The program is a server of itself: before main() begins, it reads requests from standard input, one a
// line, and forks for each. So a case costs a fork, and not a start with its dynamic linking.
//   request: KIND N ACTION VALUE OUT ERR    names as below; files for the streams of main()
//   answer:  STATUS CALLS CALLS ...         as waitpid() has it; the calls of each kind
// tests/e2e/fault_server.h speaks this.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum Kind {
  kOpen,
  kStat,
  kRead,
  kWrite,
  kMap,
  kSync,
  kRename,
  kUnlink,
  kClose,
  kMemory,
  kThread,
  kClock,
  kKinds
};
static const char* const kKindNames[kKinds] = {"open",   "stat",   "read",  "write",  "map",    "sync",
                                               "rename", "unlink", "close", "memory", "thread", "clock"};

// fail: this call fails, and VALUE is errno. fail-on: so do all later ones, but for writes to standard output
// and error. short: half of the bytes are read or written. signal: VALUE is the signal that comes before the
// call. signal-on: and before all later ones. jump: from this call on, all
// clocks are off by VALUE seconds. trace: nothing fails, and each call is written to the file VALUE,
// an open descriptor.
enum Action { kNone, kFail, kFailOn, kShort, kSignal, kSignalOn, kJump, kTrace, kActions };
static const char* const kActionNames[kActions] = {"none",   "fail",      "fail-on", "short",
                                                   "signal", "signal-on", "jump",    "trace"};

static struct {
  int kind;
  long at;
  int action;
  long value;
} fault;
static atomic_int armed;          // main() has begun
static atomic_long* calls;        // by kind, shared with the server
enum { kTraceDescriptor = 200 };  // that no program reaches by opening files

#define REAL(type, name, ...)       \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void Trace(const char* call, const char* what, const char* other) {
  char line[1024];
  const int bytes = snprintf(line, sizeof line, "%s %s %s\n", call, what, other);
  if (bytes > 0) syscall(SYS_write, kTraceDescriptor, line, (size_t)bytes);
}

static void TraceDescriptor(const char* call, int fd) {
  if (fault.action != kTrace || !armed) return;
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(link, path, sizeof path - 1);
  path[bytes > 0 ? bytes : 0] = 0;
  Trace(call, path, "");
}

// What is to be done to this call.
static enum Action Count(enum Kind kind) {
  if (!armed) return kNone;
  const long number = atomic_fetch_add(&calls[kind], 1) + 1;
  if ((int)kind != fault.kind || number < fault.at) return kNone;
  const int goes_on = fault.action == kFailOn || fault.action == kSignalOn || fault.action == kJump;
  if (number > fault.at && !goes_on) return kNone;
  if (fault.action == kSignal || fault.action == kSignalOn) raise((int)fault.value);
  return (enum Action)fault.action;
}

static int Fails(enum Kind kind) {
  const enum Action action = Count(kind);
  if (action != kFail && action != kFailOn) return 0;
  errno = (int)fault.value;
  return 1;
}

// ---- files ----

static mode_t ModeOf(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(list, int) : 0;
}

#define OPEN(name)                                      \
  int name(const char* path, int flags, ...) {          \
    va_list list;                                       \
    va_start(list, flags);                              \
    const mode_t mode = ModeOf(flags, list);            \
    va_end(list);                                       \
    REAL(int, #name, const char*, int, ...);            \
    return Fails(kOpen) ? -1 : real(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                            \
  int name(int folder, const char* path, int flags, ...) {      \
    va_list list;                                               \
    va_start(list, flags);                                      \
    const mode_t mode = ModeOf(flags, list);                    \
    va_end(list);                                               \
    REAL(int, #name, int, const char*, int, ...);               \
    return Fails(kOpen) ? -1 : real(folder, path, flags, mode); \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                \
  FILE* name(const char* path, const char* mode) { \
    REAL(FILE*, #name, const char*, const char*);  \
    return Fails(kOpen) ? NULL : real(path, mode); \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define STAT(name, type, argument)                 \
  int name(argument file, struct type* status) {   \
    REAL(int, #name, argument, struct type*);      \
    return Fails(kStat) ? -1 : real(file, status); \
  }
STAT(stat, stat, const char*)
STAT(stat64, stat64, const char*)
STAT(lstat, stat, const char*)
STAT(lstat64, stat64, const char*)
STAT(fstat, stat, int)
STAT(fstat64, stat64, int)

// -1 if the call fails, else the bytes that are left of `bytes`.
static ssize_t Amount(enum Kind kind, size_t bytes) {
  const enum Action action = Count(kind);
  if (action == kFail || action == kFailOn) {
    errno = (int)fault.value;
    return -1;
  }
  return (ssize_t)(action == kShort && bytes > 1 ? bytes / 2 : bytes);
}

ssize_t read(int fd, void* to, size_t bytes) {
  REAL(ssize_t, "read", int, void*, size_t);
  const ssize_t amount = Amount(kRead, bytes);
  return amount < 0 ? -1 : real(fd, to, (size_t)amount);
}

#define PREAD(name, offset_type)                                     \
  ssize_t name(int fd, void* to, size_t bytes, offset_type offset) { \
    REAL(ssize_t, #name, int, void*, size_t, offset_type);           \
    const ssize_t amount = Amount(kRead, bytes);                     \
    return amount < 0 ? -1 : real(fd, to, (size_t)amount, offset);   \
  }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

ssize_t write(int fd, const void* from, size_t bytes) {
  REAL(ssize_t, "write", int, const void*, size_t);
  TraceDescriptor("write", fd);
  if (fault.action == kFailOn && fd <= STDERR_FILENO) return real(fd, from, bytes);
  const ssize_t amount = Amount(kWrite, bytes);
  return amount < 0 ? -1 : real(fd, from, (size_t)amount);
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  REAL(ssize_t, "writev", int, const struct iovec*, int);
  return Fails(kWrite) ? -1 : real(fd, parts, count);
}

#define MMAP(name, offset_type)                                                               \
  void* name(void* at, size_t bytes, int protection, int flags, int fd, offset_type offset) { \
    REAL(void*, #name, void*, size_t, int, int, int, offset_type);                            \
    return Fails(kMap) ? MAP_FAILED : real(at, bytes, protection, flags, fd, offset);         \
  }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

int mprotect(void* at, size_t bytes, int protection) {
  REAL(int, "mprotect", void*, size_t, int);
  return Fails(kMap) ? -1 : real(at, bytes, protection);
}

#define SYNC(name)                       \
  int name(int fd) {                     \
    REAL(int, #name, int);               \
    TraceDescriptor("sync", fd);         \
    return Fails(kSync) ? -1 : real(fd); \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  if (fault.action == kTrace && armed) Trace("rename", from, to);
  return Fails(kRename) ? -1 : real(from, to);
}

int unlink(const char* path) {
  REAL(int, "unlink", const char*);
  return Fails(kUnlink) ? -1 : real(path);
}

// Linux closes the descriptor even if it reports an error.
int close(int fd) {
  REAL(int, "close", int);
  const int closed = real(fd);
  return Fails(kClose) ? -1 : closed;
}

// ---- memory and threads ----

// What the C library calls its own; dlsym() would allocate.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) { return Fails(kMemory) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return Fails(kMemory) ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return Fails(kMemory) ? NULL : __libc_realloc(old, bytes); }
void* memalign(size_t alignment, size_t bytes) {
  return Fails(kMemory) ? NULL : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}

// C++'s own call malloc, except in a program that is linked with mimalloc: its operators take memory from it directly.
static int NewFails(void) {
  static int direct = -1;
  if (direct < 0) direct = dlsym(RTLD_DEFAULT, "mi_malloc") != NULL;
  return direct && Fails(kMemory);
}
static void* NoMemory(void) {
  void (*(*handler)(void))(void) = (void (*(*)(void))(void))dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
  if (handler && handler()) handler()();
  abort();
}

#define NEW(name)                                 \
  void* name(size_t bytes) {                      \
    REAL(void*, #name, size_t);                   \
    return NewFails() ? NoMemory() : real(bytes); \
  }
NEW(_Znwm)  // operator new
NEW(_Znam)  // operator new[]

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  REAL(int, "pthread_create", pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return Fails(kThread) ? (int)fault.value : real(thread, attributes, run, argument);
}

// ---- clocks ----

int clock_gettime(clockid_t clock, struct timespec* now) {
  REAL(int, "clock_gettime", clockid_t, struct timespec*);
  const int result = real(clock, now);
  if (Count(kClock) == kJump) now->tv_sec += fault.value;
  return result;
}

// ---- the server ----

static int NumberOf(const char* const* names, int count, const char* name) {
  for (int i = 0; i < count; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

static int (*real_main)(int, char**, char**);

static void Redirect(const char* path, int flags, int descriptor) {
  const int fd = open(path, flags, 0600);
  if (fd < 0 || dup2(fd, descriptor) < 0) _exit(127);
  if (fd != descriptor) close(fd);
}

static int Serve(int argc, char** argv, char** environment) {
  calls = mmap(NULL, sizeof *calls * kKinds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char kind[32], action[32], out[512], err[512];
  while (scanf("%31s %ld %31s %ld %511s %511s", kind, &fault.at, action, &fault.value, out, err) == 6) {
    fault.kind = NumberOf(kKindNames, kKinds, kind);
    fault.action = NumberOf(kActionNames, kActions, action);
    memset((void*)calls, 0, sizeof *calls * kKinds);
    const pid_t child = fork();
    if (child == 0) {
      if (fault.action == kTrace)
        Redirect(getenv("ACT_FAULT_TRACE"), O_WRONLY | O_CREAT | O_TRUNC, kTraceDescriptor);
      Redirect("/dev/null", O_RDONLY, STDIN_FILENO);
      Redirect(out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
      Redirect(err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
      alarm(120);  // a case that hangs
      armed = 1;
      return real_main(argc, argv, environment);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) return 127;
    printf("%d", status);
    for (int k = 0; k < kKinds; ++k) printf(" %ld", (long)calls[k]);
    printf("\n");
    fflush(stdout);
  }
  _exit(0);
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  REAL(int, "__libc_start_main", int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
       void (*)(void), void*);
  real_main = main;
  return real(Serve, argc, argv, init, fini, rtld_fini, stack_end);
}
