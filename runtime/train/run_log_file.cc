#include "runtime/train/run_log_file.h"

#include <optional>

#include "runtime/base/error.h"

namespace act {
namespace {

// Whether a run that begins at `start` comes to this line again.
bool ComesAgain(const llvm::json::Object& line, const TrainPosition& start) {
  const auto at = [&](const char* key) { return static_cast<uint64_t>(line.getInteger(key).value_or(0)); };
  const llvm::StringRef kind = line.getString("kind").value_or("");
  if (kind == "step" || kind == "not_finite" || kind == "adaptation") return at("step") >= start.step;
  if (kind == "evaluation") return at("epoch") > start.epoch;
  return at("step") > start.step;
}

bool SameRun(const llvm::json::Object& a, const llvm::json::Object& b) {
  for (const char* key : {"fingerprint", "seed"}) {
    const llvm::json::Value *x = a.get(key), *y = b.get(key);
    if (!x || !y || *x != *y) return false;
  }
  return true;
}

}  // namespace

void ForEachLine(std::string_view log,
                 const std::function<bool(const llvm::json::Object& line, int64_t begin)>& see) {
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = log.find('\n', begin);
    if (end == std::string_view::npos) return;  // a part of a line
    llvm::Expected<llvm::json::Value> line =
        llvm::json::parse(llvm::StringRef(log.data() + begin, end - begin));
    if (!line) {
      llvm::consumeError(line.takeError());
    } else if (const llvm::json::Object* object = line->getAsObject()) {
      if (!see(*object, static_cast<int64_t>(begin))) return;
    }
    begin = end + 1;
  }
}

llvm::Expected<int64_t> BytesToKeep(std::string_view log, const std::string& path,
                                    const llvm::json::Object& header, const TrainPosition& start) {
  if (log.empty()) return 0;
  bool is_log = false, same = false;
  std::optional<int64_t> end;
  ForEachLine(log, [&](const llvm::json::Object& line, int64_t begin) {
    if (!is_log) {
      is_log = line.getString("kind") == llvm::StringRef("header");
      same = is_log && SameRun(line, header);
      if (!same) return false;
    }
    if (ComesAgain(line, start)) end = begin;
    return !end;
  });
  if (!is_log)
    return MakeError("--log", path + " is there, and is no log of actrun", "give the log another name");
  // A run from the start has nothing to do with what is there.
  if (start.step == 0 && start.epoch == 0) return 0;
  if (!same)
    return MakeError("--log", path + " is the log of another run: of another plan, or with another seed",
                     "give the log another name");
  // What follows the last newline is a part of a line.
  return end ? *end : static_cast<int64_t>(log.rfind('\n') + 1);
}

}  // namespace act
