#include "kernels/cuda/kernel_cache.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <thread>

#include "kernels/cuda/embedded.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace act::cuda {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashBytes = 32;
// Progress is told for more kernels than this: fewer take a moment.
constexpr size_t kManyKernels = 8;

std::string HashOf(llvm::ArrayRef<uint8_t> bytes) {
  const auto hash = llvm::BLAKE3::hash<kHashBytes>(bytes);
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

std::string HashOf(const std::string& text) {
  return HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// An image in a file: its hash, then the image. Nullopt if it is not there, or damaged.
std::optional<std::vector<std::byte>> ReadImage(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  if (all.size() <= kHashBytes) return std::nullopt;
  const std::string image = all.substr(kHashBytes);
  if (HashOf(image) != all.substr(0, kHashBytes)) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(image));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

llvm::Error WriteImage(const std::string& path, std::span<const std::byte> image) {
  const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(image.data()), image.size());
  return WriteFile(path, HashOf(bytes) + std::string(bytes.begin(), bytes.end()));
}

}  // namespace

std::string DefaultKernelFolder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string folder = variable("ACT_KERNEL_CACHE"); !folder.empty()) return folder;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/actrun";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/actrun";
}

KernelCache::KernelCache(Driver& driver, KernelCompiler& compiler, KernelCacheOptions options)
    : driver_(driver), compiler_(compiler), options_(std::move(options)) {
  std::string all = compiler.Key();
  for (const auto& [path, text] : EmbeddedHeaders()) (all += '\0') += path + '\0' + text;
  shared_key_ = HashOf(all);
}

KernelCache::~KernelCache() {
  for (const Entry& entry : entries_)
    if (entry.module) driver_.Unload(entry.module);
}

void KernelCache::Say(const std::string& line) const {
  if (options_.say) options_.say(line);
}

std::string KernelCache::PathOf(const KernelSource& source) const {
  if (options_.folder.empty()) return "";
  const std::string hash = HashOf(shared_key_ + source.name + '\0' + source.text);
  return options_.folder + "/" + llvm::toHex(hash, /*LowerCase=*/true).substr(0, 40) + ".bin";
}

const CompiledKernel* KernelCache::Request(const KernelSource& source) {
  Entry*& entry = by_text_[source.name + '\0' + source.text];
  if (!entry) {
    entry = &entries_.emplace_back();
    entry->source = source;
    entry->path = PathOf(source);
  }
  return &entry->kernel;
}

void KernelCache::Compile(Entry& entry) const {
  std::string log;  // of warnings; what fails is in the status
  entry.status = compiler_.Compile(entry.source, EmbeddedHeaders(), &entry.image, &log);
}

Status KernelCache::WriteSources() {
  if (options_.dump_folder.empty()) return "";
  std::error_code ignored;  // where it fails, so does writing the first file
  fs::create_directories(options_.dump_folder, ignored);
  for (; written_ < entries_.size(); ++written_) {
    const KernelSource& source = entries_[written_].source;
    const int number = ++sources_of_[source.name];
    const std::string suffix = number > 1 ? "." + std::to_string(number) : "";
    if (llvm::Error error = WriteFile(options_.dump_folder + "/" + source.name + suffix + ".cu", source.text))
      return llvm::toString(std::move(error));
  }
  return "";
}

Status KernelCache::CompileAll() {
  if (Status status = WriteSources(); !status.empty()) return status;
  std::vector<Entry*> wanted;
  for (size_t i = ready_; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (auto image = entry.path.empty() ? std::nullopt : ReadImage(entry.path)) {
      entry.image = std::move(*image);
    } else {
      wanted.push_back(&entry);
    }
  }
  if (wanted.size() > kManyKernels) Say("compiling " + std::to_string(wanted.size()) + " kernels");
  std::vector<const KernelSource*> sources;
  for (const Entry* entry : wanted) sources.push_back(&entry->source);
  compiler_.Prepare(sources, EmbeddedHeaders());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < wanted.size(); i = next++) Compile(*wanted[i]);
  };
  std::vector<std::thread> threads;
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 1; i < std::min(most, wanted.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();

  for (Entry* entry : wanted) {
    if (!entry->status.empty()) return "kernel " + entry->source.name + ": " + entry->status;
    if (entry->path.empty() || told_of_folder_) continue;
    std::error_code ignored;
    fs::create_directories(options_.folder, ignored);
    if (llvm::Error error = WriteImage(entry->path, entry->image)) {
      told_of_folder_ = true;
      Say("compiled kernels are not kept for the next run: " + llvm::toString(std::move(error)));
    }
  }
  for (; ready_ < entries_.size(); ++ready_) {
    Entry& entry = entries_[ready_];
    Status status = driver_.Load(entry.image, &entry.module);
    if (status.empty()) status = driver_.Find(entry.module, entry.source.name, &entry.kernel.function);
    if (!status.empty()) return "kernel " + entry.source.name + ": " + status;
    entry.image = {};
  }
  return "";
}

}  // namespace act::cuda
