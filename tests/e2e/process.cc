#include "tests/e2e/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/paths.h"

namespace act::e2e {
namespace {

constexpr int kTimedOut = 124;    // timeout(1)'s exit code
constexpr int kNotStarted = 127;  // a shell's exit code

void RedirectTo(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(kNotStarted);
}

// write() then fails with EFBIG, where by default SIGXFSZ would end the process.
void LimitFileSize(rlim_t bytes) {
  const rlimit limit = {bytes, bytes};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(kNotStarted);
  signal(SIGXFSZ, SIG_IGN);
}

int WaitFor(pid_t child, const Limits& limits, const std::string& err) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limits.seconds);
  bool interrupts = !limits.interrupt_at.empty();
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return kTimedOut;
    }
    if (interrupts && ReadFile(err).find(limits.interrupt_at) != std::string::npos) {
      interrupts = false;
      limits.instead ? limits.instead() : static_cast<void>(kill(child, SIGINT));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Tail(const std::string& text, size_t bytes) {
  return text.size() <= bytes ? text : "..." + text.substr(text.size() - bytes);
}

}  // namespace

std::string ToolPath(const std::string& tool) { return BinFolder() + "/" + tool; }

Outcome RunTool(const std::vector<std::string>& args, const Limits& limits) {
  const ScratchFolder logs;
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const std::string out = logs / "out", err = logs / "err";
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    RedirectTo(out, STDOUT_FILENO);
    RedirectTo(err, STDERR_FILENO);
    if (limits.largest_file_bytes > 0) LimitFileSize(static_cast<rlim_t>(limits.largest_file_bytes));
    setenv("ACT_TUNE", "off", /*overwrite=*/0);  // so tests that compare bits have the same kernels
    execv(argv[0], argv.data());
    _exit(kNotStarted);
  }
  Outcome outcome;
  outcome.exit_code = child < 0 ? kNotStarted : WaitFor(child, limits, err);
  outcome.out = ReadFile(out);
  outcome.err = ReadFile(err);
  return outcome;
}

std::string Describe(const std::vector<std::string>& args, const Outcome& outcome) {
  std::string text;
  for (const std::string& arg : args) text += arg + " ";
  text += "\nexit " + std::to_string(outcome.exit_code);
  text += "\nout: " + Tail(outcome.out, 1000) + "\nerr: " + Tail(outcome.err, 2000);
  return text;
}

ScratchFolder::ScratchFolder() {
  path_ = (std::filesystem::temp_directory_path() / "act-test-XXXXXX").string();
  if (!mkdtemp(path_.data())) path_.clear();
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

std::vector<std::string> List(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace act::e2e
