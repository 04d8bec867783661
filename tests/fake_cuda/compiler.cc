#include "tests/fake_cuda/compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

extern char** environ;

namespace act::fake {
namespace {

namespace fs = std::filesystem;

// fmaf is one instruction where the processor has it, and the same bits anywhere.
std::vector<std::string> Flags() {
  std::vector<std::string> flags = {"-std=c++20", "-O1",      "-ffp-contract=off",    "-fPIC",
                                    "-Wall",      "-Wextra",  "-Wno-unknown-pragmas", "-fvisibility=hidden",
                                    "-shared",    "-nostdlib"};
#ifdef __x86_64__
  if (__builtin_cpu_supports("fma")) flags.push_back("-mfma");
#endif
  return flags;
}

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

// Nobody sees a file that is half written, whoever writes beside us.
void WriteAtOnce(const fs::path& path, const std::string& text) {
  const fs::path part = path.string() + "." + std::to_string(getpid()) + "." + std::to_string(gettid());
  Write(part, text);
  fs::rename(part, path);
}

// FNV-1a in 64 bits: names of files in a cache of tests.
std::string HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char name[20];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return name;
}

// The exit status of the command; its output goes to `log`.
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

}  // namespace

std::string HostCompiler::Key() const {
  std::string key = ACT_CXX " " ACT_CXX_VERSION;
  for (const std::string& flag : Flags()) key += " " + flag;
  for (const char* header : {"act_machine.h", "machine.h"})
    key += Contents(fs::path(ACT_FAKE_CUDA_SOURCE) / header);
  return key;
}

cuda::Status HostCompiler::Compile(const cuda::KernelSource& source,
                                   const std::vector<std::pair<std::string, std::string>>& headers,
                                   std::vector<std::byte>* image, std::string* log) {
  ++compiled_;
  std::string text = Key() + source.text;
  for (const auto& [path, header] : headers) text += path + header;
  const fs::path cache = cache_folder_, entry = cache / (source.name + "-" + HashOf(text));
  const fs::path library = entry.string() + ".so", messages = entry.string() + ".log";
  try {
    if (!fs::exists(library)) {
      // A folder for this call alone, with the headers under the paths by which they are included.
      const fs::path work = entry.string() + "." + std::to_string(getpid()) + "." + std::to_string(gettid());
      for (const auto& [path, header] : headers) Write(work / path, header);
      const fs::path here = ACT_FAKE_CUDA_SOURCE;
      Write(work / "act_machine.h", Contents(here / "act_machine.h"));
      Write(work / "tests/fake_cuda/machine.h", Contents(here / "machine.h"));
      Write(work / (source.name + ".cc"), source.text);
      std::vector<std::string> command = {ACT_CXX};
      for (const std::string& flag : Flags()) command.push_back(flag);
      for (const fs::path& argument :
           {fs::path("-I"), work, work / (source.name + ".cc"), fs::path("-o"), work / "image"})
        command.push_back(argument.string());
      const int status = RunCommand(command, work / "log");
      *log = Contents(work / "log");
      const std::string built = Contents(work / "image");
      fs::remove_all(work);
      if (status != 0) return "the host's compiler refuses its source:\n" + *log;
      WriteAtOnce(messages, *log);
      WriteAtOnce(library, built);
    }
    *log = Contents(messages);
    const std::string bytes = Contents(library);
    image->resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) (*image)[i] = static_cast<std::byte>(bytes[i]);
  } catch (const fs::filesystem_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace act::fake
