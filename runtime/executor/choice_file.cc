#include "runtime/executor/choice_file.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"

namespace act {
namespace {

using llvm::StringRef;

constexpr char kHead[] =
    "# What actrun has timed on this machine (docs/kernels.md). To choose anew, delete this file.\n";
constexpr char kMachine[] = "machine: ";
constexpr char kArrow[] = " -> ";
constexpr char kTimes[] = " # ";
constexpr double kMostMicroseconds = 1e12;  // of a kernel: eleven days. More is no time that was measured

bool IsName(StringRef text) {
  return !text.empty() &&
         llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-'; });
}

// "dnnl.matmul 1304.5 us".
std::optional<KernelChoice::Candidate> ParseCandidate(StringRef text) {
  const auto [name, time] = text.split(' ');
  double microseconds = 0;
  if (!IsName(name) || !time.ends_with(" us") || time.drop_back(3).getAsDouble(microseconds) ||
      !(microseconds >= 0 && microseconds <= kMostMicroseconds))
    return std::nullopt;
  return KernelChoice::Candidate{name.str(), microseconds * 1e-6};
}

std::optional<std::pair<std::string, KernelChoice>> ParseLine(StringRef line) {
  const size_t arrow = line.rfind(kArrow);
  if (arrow == StringRef::npos || arrow == 0) return std::nullopt;
  const auto [name, times] = line.drop_front(arrow + sizeof kArrow - 1).split(kTimes);
  KernelChoice choice{.kernel = name.str(), .candidates = {}};
  llvm::SmallVector<StringRef> parts;
  times.split(parts, ", ");
  bool chosen = false;
  for (const StringRef part : parts) {
    const auto candidate = ParseCandidate(part);
    if (!candidate) return std::nullopt;
    chosen |= candidate->kernel == choice.kernel;
    choice.candidates.push_back(*candidate);
  }
  if (!chosen) return std::nullopt;
  return std::pair(line.take_front(arrow).str(), std::move(choice));
}

}  // namespace

std::string TimedMachine::Text() const {
  const std::string count = std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ");
  return processor + ", " + (threads > 0 ? count : "") + software;
}

std::string TimedMachine::FileName(const std::string& of) const {
  std::string name = of + "-";
  for (const char c : processor) {
    if (llvm::isAlnum(c)) {
      name += llvm::toLower(c);
    } else if (name.back() != '-') {
      name += '-';
    }
  }
  if (name.back() != '-') name += '-';
  if (threads > 0) name += std::to_string(threads) + "-threads-";
  return name + HexOf(HashOf(Text())).substr(8) + ".txt";
}

std::string VersionOf(const KernelRegistry& registry) {
  uint64_t hash = kEmptyHash;
  for (const auto& [op, entries] : registry.all()) {
    hash = HashOf(op + ":", hash);
    for (const KernelEntry& entry : entries) hash = HashOf(entry.name + ",", hash);
  }
  return "kernels " + HexOf(hash).substr(8);
}

ReadChoices ParseChoices(std::string_view text, const TimedMachine& machine) {
  ReadChoices read;
  StringRef rest(text.data(), text.size());
  bool found_machine = false;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const StringRef line = rest.take_front(end);
    // The last line of a file that was cut off may look like one with another kernel.
    const bool whole = end != StringRef::npos;
    rest = whole ? rest.drop_front(end + 1) : StringRef();
    if (whole && (line.empty() || line.starts_with("#"))) continue;
    const auto choice = whole ? ParseLine(line) : std::nullopt;
    if (!found_machine) {
      if (!whole || line != kMachine + machine.Text()) {
        return {.choices = {},
                .fault = "line " + std::to_string(number) + " is not '" + kMachine + machine.Text() + "'"};
      }
      found_machine = true;
    } else if (choice) {
      read.choices.insert_or_assign(choice->first, choice->second);
    } else if (read.fault.empty()) {
      read.fault =
          "line " + std::to_string(number) + (whole ? " is not 'site -> kernel # times'" : " is cut off");
    }
  }
  if (!found_machine) read.fault = "it does not name a machine";
  return read;
}

std::string FormatChoices(const ChoicesBySite& choices, const TimedMachine& machine) {
  std::string text = kHead;
  text += kMachine + machine.Text() + "\n";
  for (const auto& [site, choice] : choices) {
    text += site + kArrow + choice.kernel;
    const char* separator = kTimes;
    for (const KernelChoice::Candidate& candidate : choice.candidates) {
      char time[48];
      std::snprintf(time, sizeof time, " %.1f us", candidate.seconds * 1e6);
      text += std::exchange(separator, ", ") + candidate.kernel + time;
    }
    text += "\n";
  }
  return text;
}

ReadChoices ReadChoiceFile(const std::string& path, const TimedMachine& machine) {
  if (!llvm::sys::fs::exists(path)) return {};
  llvm::Expected<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file) {
    ReadChoices none;  // the caller names the file
    llvm::handleAllErrors(file.takeError(), [&](const ActError& error) { none.fault = error.what(); });
    return none;
  }
  const std::span<const std::byte> bytes = (*file)->bytes();
  return ParseChoices({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, machine);
}

llvm::Error MergeIntoChoiceFile(const std::string& path, const TimedMachine& machine,
                                const ChoicesBySite& choices) {
  // Where it fails, so does writing.
  (void)llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path));
  ChoicesBySite all = ReadChoiceFile(path, machine).choices;
  for (const auto& [site, choice] : choices) all.insert_or_assign(site, choice);
  return WriteFile(path, FormatChoices(all, machine));
}

}  // namespace act
