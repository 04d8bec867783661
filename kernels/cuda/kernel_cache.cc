#include <utility>

#include "kernels/cuda/context.h"
#include "kernels/cuda/embedded.h"

namespace act::cuda {

KernelCache::~KernelCache() {
  for (const Entry& entry : entries_)
    if (entry.module) driver_.Unload(entry.module);
}

const CompiledKernel* KernelCache::Request(const KernelSource& source) {
  Entry*& entry = by_text_[source.text];
  if (!entry) {
    entry = &entries_.emplace_back();
    entry->source = source;
  }
  return &entry->kernel;
}

Status KernelCache::CompileAll() {
  for (Entry& entry : entries_) {
    if (entry.kernel.function) continue;
    std::vector<std::byte> image;
    std::string log;
    Status status = compiler_.Compile(entry.source, EmbeddedHeaders(), &image, &log);
    if (status.empty()) status = driver_.Load(image, &entry.module);
    if (status.empty()) status = driver_.Find(entry.module, entry.source.name, &entry.kernel.function);
    if (!status.empty()) return entry.source.name + ": " + status;
  }
  return "";
}

}  // namespace act::cuda
