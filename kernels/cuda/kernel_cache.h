// Device code, compiled once for each distinct source and kept on disk.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/libraries.h"

namespace act::cuda {

// A kernel that has been asked for. It is compiled when all kernels of a graph have been.
struct CompiledKernel {
  Function* function = nullptr;  // null until then
};

struct KernelCacheOptions {
  // Where images are kept. Empty: nowhere.
  std::string folder = {};
  // Where CompileAll writes each source for people to read. Empty: nowhere.
  std::string dump_folder = {};
  // Told about long work and about a folder that cannot be written. May be null.
  std::function<void(const std::string& line)> say = {};
};

// $ACT_KERNEL_CACHE, else actrun in $XDG_CACHE_HOME or ~/.cache. Empty if there is none of them.
std::string DefaultKernelFolder();

class KernelCache {
 public:
  // Both must outlive this.
  KernelCache(Driver& driver, KernelCompiler& compiler, KernelCacheOptions options = {});
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // The result stays where it is.
  const CompiledKernel* Request(const KernelSource& source);
  // Writes the sources that have been requested since the last call to options.dump_folder: NAME.cu, and
  // NAME.2.cu and so on where kernels of one name have several.
  Status WriteSources();
  // Compiles what has been requested since the last call, on as many threads as the machine has, or reads it
  // from the folder. An image that is damaged, or of another compiler or version, is made again.
  Status CompileAll();

 private:
  struct Entry {
    KernelSource source;
    std::string path;  // of its image; empty: none
    CompiledKernel kernel;
    Module* module = nullptr;
    std::vector<std::byte> image;
    Status status;
  };
  std::string PathOf(const KernelSource& source) const;
  void Compile(Entry& entry) const;
  void Say(const std::string& line) const;

  Driver& driver_;
  KernelCompiler& compiler_;
  const KernelCacheOptions options_;
  std::string shared_key_;  // of the compiler and of the headers
  std::deque<Entry> entries_;
  size_t ready_ = 0;                       // entries that have been compiled
  size_t written_ = 0;                     // by WriteSources
  std::map<std::string, int> sources_of_;  // written, by the kernel's name
  std::unordered_map<std::string, Entry*> by_text_;
  bool told_of_folder_ = false;
};

}  // namespace act::cuda
