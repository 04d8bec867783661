#include "kernels/nvidia/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>

#include "kernels/nvidia/embedded.h"

namespace act::cuda {
namespace {

// Arithmetic is IEEE's, so that a card computes what the processor does: products and sums are contracted
// only by MulAdd, denormal numbers stay, divisions and roots are rounded correctly. -default-device:
// functions without a mark (lambdas, helpers of a generated kernel) are for the device. 186: a number of an
// unsigned type is compared with 0, in kernels/math's code for all types. ptxas says registers, stack and
// spills of each kernel.
constexpr const char* kFlags[] = {"-std=c++20",         "-fmad=false",        "-ftz=false",
                                  "-prec-div=true",     "-prec-sqrt=true",    "-default-device",
                                  "-no-source-include", "-diag-suppress=186", "--ptxas-options=-v"};

// Threads that shall fit on a multiprocessor, whose 65,536 registers they share: 64, 80, 128 or 255 for
// each. More threads hide more of memory's latency, and spilled registers cost more than that gains. So
// a kernel gets the first of these numbers with which it has no stack. By itself ptxas spills a few
// registers here and there.
constexpr int kResidentThreads[] = {1024, 768, 512, 256};

// "sm_90a" for 90. The letter allows what this generation alone has; without it cubins would run on no other
// either.
std::string ArchitectureOf(int compute_capability) {
  int count = 0;
  nvrtcGetNumSupportedArchs(&count);
  std::vector<int> supported(count);
  if (count) nvrtcGetSupportedArchs(supported.data());
  const auto has = [&](int arch) { return std::count(supported.begin(), supported.end(), arch) > 0; };
  if (has(compute_capability))
    return "sm_" + std::to_string(compute_capability) + (compute_capability == 90 ? "a" : "");
  int newest = 80;
  for (const int arch : supported)
    if (arch <= compute_capability) newest = std::max(newest, arch);
  return "compute_" + std::to_string(newest);
}

// The name by which device code includes a file of this folder.
std::string IncludeName(const std::string& path) {
  if (path == "kernels/nvidia/act_machine.h") return "act_machine.h";
  const std::string standard = "kernels/nvidia/std/";
  return path.starts_with(standard) ? path.substr(standard.size()) : "";
}

struct Program {
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtcDestroyProgram(&handle);
  }
};

std::string LogOf(nvrtcProgram program) {
  size_t bytes = 0;
  if (nvrtcGetProgramLogSize(program, &bytes) != NVRTC_SUCCESS || bytes < 2) return "";
  std::string log(bytes, '\0');
  nvrtcGetProgramLog(program, log.data());
  log.resize(bytes - 1);
  return log;
}

// Each line of a log as an error keeps it, which writes other line breaks out (runtime/base/printable.h).
std::string Indented(const std::string& log) {
  std::string lines = "\n  ";
  for (const char c : log) lines += c == '\n' ? "\n  " : std::string(1, c);
  return lines.substr(0, lines.find_last_not_of("\n ") + 1);
}

// Whether ptxas tells of "8 bytes stack frame", "8 bytes spill stores" or loads. A frame without spills keeps
// what a call would overwrite, as the slow path of a division is.
bool UsesStack(const std::string& log) {
  for (const std::string what : {" bytes stack", " bytes spill"})
    for (size_t at = log.find(what); at != std::string::npos; at = log.find(what, at + 1))
      if (log[at - 1] != '0' || (at >= 2 && std::isdigit(static_cast<unsigned char>(log[at - 2])))) return true;
  return false;
}

// Makes the program of a source. Its names and texts need not stay.
nvrtcResult Create(const KernelSource& source, const DeviceHeaders& headers, Program* program) {
  std::vector<std::string> names;
  std::vector<const char*> name_pointers, texts;
  for (const auto& [path, text] : headers) names.push_back(path), texts.push_back(text.c_str());
  for (const auto& [path, text] : NvidiaFiles())
    if (const std::string name = IncludeName(path); !name.empty())
      names.push_back(name), texts.push_back(text.c_str());
  for (const std::string& name : names) name_pointers.push_back(name.c_str());
  return nvrtcCreateProgram(&program->handle, source.text.c_str(), (source.name + ".cu").c_str(),
                            static_cast<int>(texts.size()), texts.data(), name_pointers.data());
}

}  // namespace

NvrtcCompiler::NvrtcCompiler(int compute_capability) : architecture_(ArchitectureOf(compute_capability)) {}

std::string NvrtcCompiler::Name() const {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return "NVRTC " + std::to_string(major) + "." + std::to_string(minor) + " for " + architecture_;
}

std::string NvrtcCompiler::Key() const {
  std::string key = Name();
  for (const char* flag : kFlags) key += std::string(" ") + flag;
  for (const int threads : kResidentThreads) key += " " + std::to_string(threads);
  std::string files;
  for (const auto& [path, text] : NvidiaFiles())
    if (!IncludeName(path).empty()) files += text;
  return key + " headers " + std::to_string(std::hash<std::string>()(files));
}

Status NvrtcCompiler::Compile(const KernelSource& source, const DeviceHeaders& headers,
                              std::vector<std::byte>* image, std::string* log) {
  for (const int threads : kResidentThreads) {
    const Status status = CompileFor(threads, source, headers, image, log);
    if (!status.empty() || !UsesStack(*log)) return status;
  }
  return "";  // the log tells of the stack
}

Status NvrtcCompiler::CompileFor(int resident_threads, const KernelSource& source,
                                 const DeviceHeaders& headers, std::vector<std::byte>* image,
                                 std::string* log) {
  Program program;
  nvrtcResult result = Create(source, headers, &program);
  if (result != NVRTC_SUCCESS) return std::string("nvrtcCreateProgram: ") + nvrtcGetErrorString(result);
  const std::string architecture = "-arch=" + architecture_,
                    resident = "-DACT_RESIDENT_THREADS=" + std::to_string(resident_threads);
  std::vector<const char*> flags(std::begin(kFlags), std::end(kFlags));
  flags.insert(flags.end(), {architecture.c_str(), resident.c_str()});
  result = nvrtcCompileProgram(program.handle, static_cast<int>(flags.size()), flags.data());
  *log = LogOf(program.handle);
  if (result != NVRTC_SUCCESS)
    return std::string("nvrtcCompileProgram: ") + nvrtcGetErrorString(result) + Indented(*log);

  size_t bytes = 0;
  result =
      makes_cubin() ? nvrtcGetCUBINSize(program.handle, &bytes) : nvrtcGetPTXSize(program.handle, &bytes);
  image->resize(bytes);
  char* begin = reinterpret_cast<char*>(image->data());
  if (result == NVRTC_SUCCESS)
    result = makes_cubin() ? nvrtcGetCUBIN(program.handle, begin) : nvrtcGetPTX(program.handle, begin);
  return result == NVRTC_SUCCESS ? "" : std::string("NVRTC's image: ") + nvrtcGetErrorString(result);
}

}  // namespace act::cuda
