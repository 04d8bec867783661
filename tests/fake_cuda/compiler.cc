#include "tests/fake_cuda/compiler.h"

#include <atomic>
#include <set>
#include <sstream>
#include <thread>

#include "tests/fake_cuda/files.h"

namespace act::fake {
namespace {

namespace fs = std::filesystem;
using cuda::DeviceHeaders;
using cuda::KernelSource;

// A fused loop is compiled for one plan or two, which takes far longer than a test runs it, so it is not optimized. What
// costs most then is reading the standard library (most of .2 s) and starting the compiler: act_machine.h is compiled
// once, and several kernels are one translation unit. The image of a kernel is that of its unit, so units are small.
// All other kernels are a few texts that many tests run, among them convolutions, products and attention.
constexpr size_t kMostInUnit = 12;

bool IsOptimized(const KernelSource& source) { return !source.name.starts_with("fused_"); }

// fmaf is one instruction where the processor has it, and the same bits anywhere.
std::vector<std::string> Flags() {
  std::vector<std::string> flags = {"-std=c++20", "-ffp-contract=off",    "-fPIC",     "-Wall",
                                    "-Wextra",    "-Wno-unknown-pragmas", "-nostdlib", "-fvisibility=hidden"};
#ifdef __x86_64__
  if (__builtin_cpu_supports("fma")) flags.push_back("-mfma");
#endif
  return flags;
}
const char* FlagOf(bool optimized) { return optimized ? "-O1" : "-O0"; }

std::vector<std::string> Command(bool optimized, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {ACT_CXX, FlagOf(optimized)};
  for (const std::vector<std::string>& some : {Flags(), arguments})
    command.insert(command.end(), some.begin(), some.end());
  return command;
}

// One translation unit of all sources. Each is in a namespace of its own, since they have names in common;
// so their headers, which are read once, come before. Lines keep their numbers.
std::string UnitOf(const std::vector<const KernelSource*>& sources) {
  if (sources.size() == 1) return sources.front()->text;
  std::string includes, texts;
  for (size_t i = 0; i < sources.size(); ++i) {
    std::istringstream lines(sources[i]->text);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("#include")) includes += line + "\n";
    texts += "namespace act_unit_" + std::to_string(i) + " {\n#line 1 \"" + sources[i]->name + ".cc\"\n" +
             sources[i]->text + "\n}\n";
  }
  return includes + texts;
}

}  // namespace

std::string HostCompiler::Key() const {
  std::string key = ACT_CXX " " ACT_CXX_VERSION;
  for (const std::string& flag : Flags()) key += " " + flag;
  for (const bool optimized : {false, true}) key += std::string(" ") + FlagOf(optimized);
  for (const char* header : {"act_machine.h", "machine.h"})
    key += Contents(fs::path(ACT_FAKE_CUDA_SOURCE) / header);
  return key;
}

fs::path HostCompiler::Include(const DeviceHeaders& headers) {
  const std::lock_guard<std::mutex> lock(including_);
  if (!include_.empty()) return include_;
  uint64_t hash = HashOf(Key());
  for (const auto& [path, header] : headers) hash = HashOf(header, HashOf(path, hash));
  const fs::path folder = cache_folder_ / ("include-" + HexOf(hash));
  if (!fs::exists(folder))
    MakeFolderAtOnce(folder, [&headers](const fs::path& part) {
      const fs::path here = ACT_FAKE_CUDA_SOURCE, machine = part / "act_machine.h";
      for (const auto& [path, header] : headers) Write(part / path, header);
      Write(machine, Contents(here / "act_machine.h"));
      Write(part / "tests/fake_cuda/machine.h", Contents(here / "machine.h"));
      // The compiler takes the one that was made with its flags. Where this fails it reads act_machine.h itself.
      const fs::path compiled = machine.string() + ".gch";
      fs::create_directory(compiled);
      for (const bool optimized : {false, true})
        RunCommand(
            Command(optimized, {"-I", part, "-x", "c++-header", machine, "-o", compiled / FlagOf(optimized)}),
            part / "log");
    });
  return include_ = folder;
}

fs::path HostCompiler::EntryOf(const KernelSource& source) const {
  return cache_folder_ / (source.name + "-" + HexOf(HashOf(include_.filename().string() + source.text)));
}

cuda::Status HostCompiler::Make(const Sources& sources) {
  const fs::path work = OwnPath(EntryOf(*sources.front())), unit = work / (sources.front()->name + ".cc");
  Write(unit, UnitOf(sources));
  const int status = RunCommand(
      Command(IsOptimized(*sources.front()),
              {"-I", include_, "-include", "act_machine.h", "-shared", "-s", unit, "-o", work / "image"}),
      work / "log");
  const std::string log = Contents(work / "log");
  const bool made = status == 0 && (sources.size() == 1 || log.empty());
  // All entries are links to this process's own image. An entry itself may be replaced at any time by another process,
  // whose unit has other kernels beside that one.
  for (const KernelSource* source : made ? sources : Sources()) {
    WriteAtOnce(EntryOf(*source).string() + ".log", log);
    LinkAtOnce(work / "image", EntryOf(*source).string() + ".so");
  }
  fs::remove_all(work);
  if (made) return "";
  return log.empty() ? "it ended early" : log;
}

void HostCompiler::Prepare(const Sources& sources, const DeviceHeaders& headers) {
  std::vector<Sources> units;
  try {
    Include(headers);
    for (const bool optimized : {false, true}) {
      units.emplace_back();
      std::set<std::string> names;  // of the last unit
      for (const KernelSource* source : sources) {
        if (IsOptimized(*source) != optimized || fs::exists(EntryOf(*source).string() + ".so")) continue;
        if (units.back().size() == kMostInUnit || names.contains(source->name)) {
          units.emplace_back();
          names.clear();
        }
        units.back().push_back(source);
        names.insert(source->name);
      }
    }
  } catch (const fs::filesystem_error&) {
    return;  // Compile meets it again, and says so
  }
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++) try {
        if (units[i].size() > 1) Make(units[i]);
      } catch (const fs::filesystem_error&) {
      }
  };
  std::vector<std::thread> threads;
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 1; i < std::min(most, units.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

cuda::Status HostCompiler::Compile(const KernelSource& source, const DeviceHeaders& headers,
                                   std::vector<std::byte>* image, std::string* log) {
  ++compiled_;
  try {
    Include(headers);
    const std::string entry = EntryOf(source);
    if (!fs::exists(entry + ".so"))
      if (*log = Make({&source}); !log->empty()) return "the host's compiler refuses its source:\n" + *log;
    *log = Contents(entry + ".log");
    const std::string bytes = Contents(entry + ".so");
    image->resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) (*image)[i] = static_cast<std::byte>(bytes[i]);
  } catch (const fs::filesystem_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace act::fake
