#include "kernels/cuda/kernel_cache.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "kernels/cuda/embedded.h"
#include "runtime/base/cache_folder.h"
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

std::string DefaultKernelFolder() { return CacheFolder("ACT_KERNEL_CACHE"); }

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

std::string KernelCache::KeyOf(const KernelSource& source) const {
  const std::string hash = HashOf(shared_key_ + source.name + '\0' + source.text);
  return llvm::toHex(hash, /*LowerCase=*/true).substr(0, 40);
}

std::string KernelCache::PathOf(const Entry& entry) const {
  return options_.folder.empty() ? "" : options_.folder + "/" + entry.key + ".bin";
}

std::string KernelCache::CodeName() const {
  return compiler_.Name() + ", device code " + llvm::toHex(shared_key_, /*LowerCase=*/true).substr(0, 8);
}

const CompiledKernel* KernelCache::Request(const KernelSource& source) {
  Entry*& entry = by_text_[source.name + '\0' + source.text];
  if (!entry) {
    entry = &entries_.emplace_back();
    entry->source = source;
    entry->key = KeyOf(source);
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

bool KernelCache::FindInPlan(Entry& entry) const {
  const PreparedKernel* found = options_.prepared ? options_.prepared->FindKernel(entry.key) : nullptr;
  if (!found) return false;
  entry.image.assign(found->image.data, found->image.data + found->image.bytes);
  return entry.from_plan = true;
}

bool KernelCache::FindInFolder(Entry& entry) const {
  const std::string path = PathOf(entry);
  auto image = path.empty() ? std::nullopt : ReadImage(path);
  if (image) entry.image = std::move(*image);
  return image.has_value();
}

Status KernelCache::Make(const std::vector<Entry*>& wanted) {
  if (wanted.size() > kManyKernels) Say("compiling " + std::to_string(wanted.size()) + " kernels");
  std::vector<const KernelSource*> sources;
  sources.reserve(wanted.size());
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
    if (options_.folder.empty() || told_of_folder_) continue;
    std::error_code ignored;
    fs::create_directories(options_.folder, ignored);
    if (llvm::Error error = WriteImage(PathOf(*entry), entry->image)) {
      told_of_folder_ = true;
      Say("compiled kernels are not kept for the next run: " + llvm::toString(std::move(error)));
    }
  }
  return "";
}

Status KernelCache::MakeImages() {
  std::vector<Entry*> wanted;
  for (size_t i = ready_; i < entries_.size(); ++i)
    if (Entry& entry = entries_[i]; entry.image.empty() && !FindInPlan(entry) && !FindInFolder(entry))
      wanted.push_back(&entry);
  return Make(wanted);
}

Status KernelCache::Load(Entry& entry) const {
  Status status = driver_.Load(entry.image, &entry.module);
  if (status.empty()) status = driver_.Find(entry.module, entry.source.name, &entry.kernel.function);
  if (status.empty()) return "";
  if (entry.module) driver_.Unload(std::exchange(entry.module, nullptr));
  return "kernel " + entry.source.name + ": " + status;
}

Status KernelCache::LoadAnother(const std::vector<Entry*>& refused, const Status& why) {
  Say("code that the plan brings does not load (" + why + "): without it " + std::to_string(refused.size()) +
      (refused.size() == 1 ? " kernel is" : " kernels are") + " compiled, unless they are kept");
  std::vector<Entry*> wanted;
  for (Entry* entry : refused) {
    entry->from_plan = false;
    entry->image.clear();
    if (!FindInFolder(*entry)) wanted.push_back(entry);
  }
  Status status = Make(wanted);
  for (Entry* entry : refused)
    if (status.empty()) status = Load(*entry);
  return status;
}

Status KernelCache::CompileAll() {
  if (Status status = WriteSources(); !status.empty()) return status;
  if (Status status = MakeImages(); !status.empty()) return status;
  std::vector<Entry*> refused;
  Status why;  // of the first
  for (size_t i = ready_; i < entries_.size(); ++i) {
    Status status = Load(entries_[i]);
    if (status.empty()) continue;
    if (!entries_[i].from_plan) return status;
    if (refused.empty()) why = std::move(status);
    refused.push_back(&entries_[i]);
  }
  if (!refused.empty())
    if (Status status = LoadAnother(refused, why); !status.empty()) return status;
  for (; ready_ < entries_.size(); ++ready_) entries_[ready_].image = {};
  return "";
}

Status KernelCache::Images(std::vector<PreparedKernel>* images) {
  if (Status status = MakeImages(); !status.empty()) return status;
  for (const Entry& entry : entries_)
    images->push_back(
        {.key = entry.key,
         .name = entry.source.name,
         .image = HostTensor::Copy(entry.image.data(), static_cast<int64_t>(entry.image.size()))});
  std::sort(images->begin(), images->end(),
            [](const PreparedKernel& a, const PreparedKernel& b) { return a.key < b.key; });
  return "";
}

}  // namespace act::cuda
