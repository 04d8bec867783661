#include "tools/saving.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/ADT/StringSwitch.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <optional>
#include <utility>

#include "runtime/base/error.h"

namespace act {
namespace {

using llvm::StringRef;

void Say(const std::string& line) { llvm::errs() << "actrun: " << line << "\n"; }

// "500", "30s", "10min", "2h". Nullopt: none of these, or zero.
std::optional<SaveInterval> ParseInterval(StringRef text) {
  constexpr uint64_t kMost = uint64_t{1} << 40;  // seconds: the clock counts nanoseconds in 63 bits elsewhere
  uint64_t number = 0;
  if (text.consumeInteger(10, number) || number < 1) return std::nullopt;
  SaveInterval interval;
  if (text.empty()) {
    interval.steps = number;
    return interval;
  }
  const uint64_t unit =
      llvm::StringSwitch<uint64_t>(text).Case("s", 1).Case("min", 60).Case("h", 3600).Default(0);
  if (unit == 0 || number > kMost / unit) return std::nullopt;
  interval.time = std::chrono::seconds(number * unit);
  return interval;
}

std::optional<BestBy> ParseBest(StringRef text) {
  return llvm::StringSwitch<std::optional<BestBy>>(text)
      .Case("loss", BestBy::kLoss)
      .Case("accuracy", BestBy::kAccuracy)
      .Default(std::nullopt);
}

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

// A run that starts over writes states of fewer steps than those that are there, and --resume would take those.
llvm::Error CheckNoLater(const CheckpointFiles::Search& search, uint64_t begin) {
  if (search.found.empty() || search.found.back().position.step <= begin) return llvm::Error::success();
  const CheckpointFiles::Found& newest = search.found.back();
  return MakeError("--save-every",
                   newest.path + " is of step " + std::to_string(newest.position.step) +
                       ", and this run begins at step " + std::to_string(begin),
                   "--resume goes on from there; to start over, remove it or give --save another name");
}

// The file from which --resume goes on. Empty if there is none.
llvm::Expected<std::string> Newest(const std::string& path, const CheckpointFiles::Search& search) {
  if (search.found.empty() && !search.damaged.empty())
    return MakeError("--resume", "no complete checkpoint is left of " + path,
                     "to start over, remove the damaged files");
  if (search.found.empty()) {
    Say("no checkpoint of " + path + " is there: the run starts at step 0");
    return "";
  }
  const CheckpointFiles::Found& newest = search.found.back();
  Say("goes on with " + newest.path + ", from step " + std::to_string(newest.position.step));
  return newest.path;
}

}  // namespace

std::string CheckSavingUsage(const RunFlags& f) {
  const auto needs_save = [&](const llvm::cl::Option& flag) {
    return flag.getNumOccurrences() && f.save.empty()
               ? "--" + flag.ArgStr.str() + ": needs --save, which names the files"
               : "";
  };
  for (const llvm::cl::Option* flag :
       std::initializer_list<const llvm::cl::Option*>{&f.save_every, &f.save_best, &f.resume})
    if (const std::string wrong = needs_save(*flag); !wrong.empty()) return wrong;
  if (f.save_every.getNumOccurrences() && !ParseInterval(f.save_every))
    return "--save-every: expected steps or a time, found " + Quoted(f.save_every) +
           "\nwrite 500 for every 500 steps; 30s, 10min or 2h for a time";
  if (f.keep.getNumOccurrences() && f.save_every.empty()) return "--keep: counts the files of --save-every";
  if (f.keep < 1) return "--keep: expected at least 1";
  if (f.save_best.getNumOccurrences() && !ParseBest(f.save_best))
    return "--save-best: expected loss or accuracy, found " + Quoted(f.save_best);
  if (!f.save_best.empty() && f.eval_data.empty())
    return "--save-best: needs --eval-data, by which it is the best";
  if (f.resume && !f.load.empty())
    return "--resume and --load: give one of them\n--resume finds the newest checkpoint of --save by itself";
  return "";
}

llvm::Expected<Saving> Saving::Open(const RunFlags& f, const Plan& plan) {
  Saving saving;
  saving.path_ = f.save;
  saving.load_ = f.load;
  saving.continues_ = !f.load.empty();
  if (f.save.empty()) return saving;
  if (!f.save_every.empty()) saving.options_.every = *ParseInterval(f.save_every);
  saving.options_.keep = static_cast<size_t>(f.keep);
  if (!f.save_best.empty()) saving.options_.best = *ParseBest(f.save_best);
  if (saving.options_.best == BestBy::kAccuracy && plan.eval.graph.outputs.size() < 2)
    return MakeError("--save-best", "the model has no class labels, and so no accuracy", "--save-best=loss");

  ACT_TRY(saving.lock_, FileLock::Take(f.save));
  const bool keeps = !f.save_every.empty() || !f.save_best.empty() || f.resume;
  if (keeps && llvm::sys::fs::exists(f.save) && !llvm::sys::fs::is_regular_file(f.save))
    return MakeError("--save", f.save + " is not a file, and others cannot be kept beside it");
  const CheckpointFiles files(f.save);
  if (saving.lock_) {
    files.RemoveTemporary();
    llvm::SmallString<256> real;  // a symbolic link's file is written in its own folder
    if (!llvm::sys::fs::real_path(f.save, real)) CheckpointFiles(real.str().str()).RemoveTemporary();
  }
  if (!keeps) return saving;
  saving.earlier_ = files.Find();
  for (const std::string& damaged : saving.earlier_.damaged) Say("warning: left aside: " + damaged);
  if (f.resume) {
    ACT_TRY(saving.load_, Newest(f.save, saving.earlier_));
    saving.continues_ = true;
  } else if (!f.save_every.empty()) {
    TrainPosition begin;
    if (!f.load.empty()) {
      ACT_TRY(begin, ReadPosition(f.load));
    }
    ACT_CHECK_OK(CheckNoLater(saving.earlier_, begin.step));
  }
  return saving;
}

std::unique_ptr<RunFollower> Saving::Follower(std::function<CodeLevels()> levels) const {
  const bool on_the_way = options_.every.steps > 0 || options_.every.time.count() > 0;
  if (!on_the_way && options_.best == BestBy::kNone) return nullptr;
  RunSaverOptions options = options_;
  options.levels = std::move(levels);
  auto saver = std::make_unique<RunSaver>(CheckpointFiles(path_), std::move(options));
  if (continues_) saver->Continue(earlier_);
  return saver;
}

}  // namespace act
