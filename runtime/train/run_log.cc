#include "runtime/train/run_log.h"

#include <fcntl.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/train/run_log_file.h"

namespace act {
namespace {

// A line in a buffer of a fixed size. All numbers of a step fit.
class LineWriter {
 public:
  explicit LineWriter(std::array<char, 1024>& buffer)
      : begin_(buffer.data()), at_(begin_), end_(begin_ + buffer.size()) {}

  template <typename Value>
  LineWriter& Add(std::string_view key, Value value) {
    Text(",\"").Text(key);
    Text("\":");
    if constexpr (std::is_floating_point_v<Value>) {
      if (!std::isfinite(value)) return Text("null");
    }
    const auto [end, error] = std::to_chars(at_, end_, value);
    if (error == std::errc()) at_ = end;
    return *this;
  }
  LineWriter& Text(std::string_view text) {
    const size_t length = std::min(text.size(), static_cast<size_t>(end_ - at_));
    std::memcpy(at_, text.data(), length);
    at_ += length;
    return *this;
  }
  size_t size() const { return static_cast<size_t>(at_ - begin_); }

 private:
  char *begin_, *at_, *const end_;
};

llvm::Error Failed(const std::string& path) {
  return MakeError("--log: " + path, std::string("cannot write: ") + std::strerror(errno));
}

}  // namespace

llvm::Expected<std::unique_ptr<RunLog>> RunLog::Open(const std::string& path,
                                                     const llvm::json::Object& header,
                                                     const TrainPosition& start, const Executor* measured) {
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0, regular = !exists || S_ISREG(status.st_mode);
  int64_t keep = 0;
  if (exists && regular && status.st_size > 0) {
    ACT_TRY(const auto old, MappedFile::Open(path));
    const std::string_view text(reinterpret_cast<const char*>(old->bytes().data()), old->bytes().size());
    ACT_TRY(keep, BytesToKeep(text, path, header, start));
  }
  auto file = OpenForWriting(path, O_CREAT | O_APPEND);
  if (!file) return WithPlace(file.takeError(), "--log");
  std::unique_ptr<RunLog> log(new RunLog(path, *file, regular ? keep : -1, measured));
  if (regular && ftruncate(*file, keep) != 0) return Failed(path);
  log->Event("header", start.step, header);
  return log;
}

RunLog::~RunLog() { close(file_); }

void RunLog::Write(const char* line, size_t length) {
  ssize_t written = 0;
  do {
    written = write(file_, line, length);
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(length)) {
    if (bytes_ >= 0) bytes_ += written;
    return;
  }
  if (lost_++ == 0)
    failure_ = path_ + ": " + (written < 0 ? std::strerror(errno) : "no space for the whole line") +
               "; the run goes on, and lines that do not fit are left out";
  // The part of the line that was written. If it stays, it and the next line are one that no reader takes.
  if (written > 0 && bytes_ >= 0 && ftruncate(file_, bytes_) != 0) bytes_ += written;
}

llvm::Error RunLog::AfterStep(const StepRecord& step) {
  LineWriter line(line_);
  line.Text("{\"kind\":\"step\"")
      .Add("step", step.step)
      .Add("epoch", step.epoch)
      .Add("samples", step.samples);
  line.Add("loss", step.loss).Add("lr", step.learning_rate);
  line.Add("seconds", step.seconds).Add("input_seconds", step.input_seconds);
  line.Add("samples_per_second", static_cast<double>(step.samples) / step.seconds);
  line.Add("peak_bytes", measured_ ? measured_->arena().high_water_bytes() : 0);
  line.Add("gradient_norm", step.gradient_norm.value_or(std::nan(""))).Text("}\n");
  Write(line_.data(), line.size());
  return llvm::Error::success();
}

llvm::Error RunLog::AfterEvaluation(const Executor& /*executor*/, const TrainPosition& position,
                                    const Evaluation& evaluation) {
  Event("evaluation", position.step,
        llvm::json::Object{{"epoch", static_cast<int64_t>(evaluation.epoch)},
                           {"loss", NumberOrNull(evaluation.loss)},
                           {"accuracy", NumberOrNull(evaluation.accuracy)}});
  return llvm::Error::success();
}

llvm::Error RunLog::AfterNotFinite(uint64_t step, const NotFinite& found) {
  Event("not_finite", step,
        llvm::json::Object{{"name", JsonText(found.name)}, {"text", JsonText(found.text)}});
  return llvm::Error::success();
}

llvm::Error RunLog::AfterAdaptation(const Adaptation& a) {
  Event("adaptation", a.step,
        llvm::json::Object{{"measured", a.measured},
                           {"moved", a.moved},
                           {"sum_of_edges", NumberOrNull(a.variance_before)},
                           {"predicted", NumberOrNull(a.variance_after)},
                           {"bytes", a.bytes},
                           {"planned_peak_bytes", a.peak_bytes},
                           {"seconds", NumberOrNull(a.seconds)}});
  return llvm::Error::success();
}

std::vector<std::string> RunLog::TakeWarnings() {
  if (failure_.empty()) return {};
  return {std::exchange(failure_, "")};
}

void RunLog::Event(const std::string& kind, uint64_t step, const llvm::json::Object& more) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out);
  json.objectBegin();
  json.attribute("kind", JsonText(kind));
  json.attribute("step", static_cast<int64_t>(step));
  std::map<std::string, const llvm::json::Value*> sorted;
  for (const auto& [key, value] : more) sorted[key.str()] = &value;
  for (const auto& [key, value] : sorted) json.attribute(key, *value);
  json.objectEnd();
  out << "\n";
  Write(text.data(), text.size());
}

}  // namespace act
