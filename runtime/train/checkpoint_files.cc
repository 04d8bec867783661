#include "runtime/train/checkpoint_files.h"

#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>

namespace act {
namespace {

using llvm::StringRef;
constexpr char kStep[] = ".step-", kBestMark[] = ".best", kTemporary[] = ".tmp";
constexpr size_t kTemporaryDigits = 8;

// So that a run that did more in the same number of steps (the end of an epoch) comes later.
auto Order(const TrainPosition& position) {
  return std::tuple(position.step, position.epoch, position.position);
}

}  // namespace

CheckpointFiles::CheckpointFiles(const std::string& path) : path_(path) {
  const StringRef name = llvm::sys::path::filename(path);
  folder_ = path.substr(0, path.size() - name.size());
  extension_ = llvm::sys::path::extension(name).str();
  stem_ = name.drop_back(extension_.size()).str();
}

std::string CheckpointFiles::InFolder(const std::string& name) const { return folder_ + name; }

std::string CheckpointFiles::best() const { return InFolder(stem_ + kBestMark + extension_); }

std::string CheckpointFiles::AtStep(uint64_t step) const {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%08llu", static_cast<unsigned long long>(step));
  return InFolder(stem_ + kStep + digits + extension_);
}

CheckpointFiles::Kind CheckpointFiles::KindOf(const std::string& name) const {
  if (name == stem_ + extension_) return Kind::kLast;
  if (name == stem_ + kBestMark + extension_) return Kind::kBest;
  StringRef rest = name;
  if (!rest.consume_front(stem_ + kStep) || !rest.consume_back(extension_)) return Kind::kOther;
  const bool digits = rest.size() >= 8 && llvm::all_of(rest, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? Kind::kAtStep : Kind::kOther;
}

bool CheckpointFiles::IsTemporary(const std::string& name) const {
  StringRef rest = name;
  if (!rest.consume_back(kTemporary)) return false;
  const auto [written, digits] = rest.rsplit('.');
  return digits.size() == kTemporaryDigits &&
         llvm::all_of(digits, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }) &&
         KindOf(written.str()) != Kind::kOther;
}

std::vector<std::string> CheckpointFiles::Names() const {
  std::vector<std::string> names;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator entry(folder_.empty() ? "." : folder_, code), end;
       !code && entry != end; entry.increment(code))
    names.push_back(llvm::sys::path::filename(entry->path()).str());
  std::sort(names.begin(), names.end());
  return names;
}

CheckpointFiles::Search CheckpointFiles::Find() const {
  Search search;
  for (const std::string& name : Names()) {
    const Kind kind = KindOf(name);
    if (kind != Kind::kLast && kind != Kind::kAtStep) continue;
    Found found{.path = InFolder(name), .position = {}};
    llvm::Expected<TrainPosition> position = ReadPosition(found.path);
    if (!position) {
      search.damaged.push_back(llvm::toString(position.takeError()));
      continue;
    }
    found.position = *position;
    search.found.push_back(std::move(found));
  }
  // Of two equal states, the last one is the run's end.
  std::stable_sort(search.found.begin(), search.found.end(), [&](const Found& a, const Found& b) {
    return std::tuple(Order(a.position), a.path == path_) < std::tuple(Order(b.position), b.path == path_);
  });
  return search;
}

void CheckpointFiles::RemoveTemporary() const {
  for (const std::string& name : Names())
    if (IsTemporary(name)) ::unlink(InFolder(name).c_str());
}

}  // namespace act
