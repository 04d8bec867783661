#include "tests/fake_cuda/files.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

extern char** environ;

namespace act::fake {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

fs::path OwnPath(const fs::path& path) {
  return path.string() + "." + std::to_string(getpid()) + "." + std::to_string(gettid());
}

void WriteAtOnce(const fs::path& path, const std::string& text) {
  const fs::path part = OwnPath(path);
  Write(part, text);
  fs::rename(part, path);
}

void LinkAtOnce(const fs::path& from, const fs::path& to) {
  const fs::path part = OwnPath(to);
  fs::create_hard_link(from, part);
  fs::rename(part, to);
}

void MakeFolderAtOnce(const fs::path& path, const std::function<void(const fs::path&)>& fill) {
  const fs::path part = OwnPath(path);
  fs::create_directories(part);
  fill(part);
  std::error_code taken;  // another one was first, and has made the same
  fs::rename(part, path, taken);
  if (taken) fs::remove_all(part);
}

uint64_t HashOf(const std::string& text, uint64_t before) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return before;
}

std::string HexOf(uint64_t hash) {
  char name[20];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

int RunCommand(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int status = -1;
  if (posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) == 0)
    waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

}  // namespace act::fake
