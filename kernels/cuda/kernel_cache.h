// Device code, compiled once for each distinct source and kept on disk.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/libraries.h"
#include "runtime/plan/prepared.h"

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
  // Told about long work, a folder that cannot be written, and code of a plan that does not load. May be null.
  std::function<void(const std::string& line)> say = {};
  // What the plan brings. May be null, and of another compiler or card: then none of its code is found.
  std::shared_ptr<const Prepared> prepared = nullptr;
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
  // Takes what has been requested since the last call from the plan, else from the folder, else compiles it,
  // on as many threads as the machine has. An image that is damaged, or of another compiler or version, is
  // made again.
  Status CompileAll();

  // What all code depends on, for people too: "NVRTC 13.0 for sm_90a, device code 5e1f03c2".
  std::string CodeName() const;
  // The code of all that has been requested, for a plan. Nothing is loaded, so that the card need not be here.
  Status Images(std::vector<PreparedKernel>* images);

 private:
  struct Entry {
    KernelSource source;
    std::string key;  // of its code
    CompiledKernel kernel;
    Module* module = nullptr;
    std::vector<std::byte> image;
    bool from_plan = false;  // the image
    Status status;
  };
  std::string KeyOf(const KernelSource& source) const;
  std::string PathOf(const Entry& entry) const;  // of its image; empty: none
  void Compile(Entry& entry) const;
  // Whether the image was found in the plan or, else, in the folder.
  bool FindInPlan(Entry& entry) const;
  bool FindInFolder(Entry& entry) const;
  // Compiles each, and keeps it in the folder.
  Status Make(const std::vector<Entry*>& wanted);
  // Gives an image to each entry that has none.
  Status MakeImages();
  Status Load(Entry& entry) const;
  // Of entries whose code in the plan does not load: anybody may have written the file.
  Status LoadAnother(const std::vector<Entry*>& refused, const Status& why);
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
