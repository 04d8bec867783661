// Chooses engines of convolutions by time: once on a kind of card, with the choice kept in a file for later
// runs, which so compute the same bits. The library's own order is an estimate, and for float32 without tensor
// cores it names engines that take twenty times as long as others (docs/cuda.md).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/libraries.h"
#include "runtime/executor/choice_file.h"

namespace act::cuda {

struct EngineTimerOptions {
  TimedMachine machine = {};  // the card, and what its library is
  std::string path = {};      // of the file of choices; empty: they are not kept
  bool force = false;         // times again what the file has
  double most_seconds = 60;   // after this, the library's order decides
  // Told about long work, memory that is missing, and a file that is damaged or cannot be written. May be
  // null.
  std::function<void(const std::string& line)> say = {};
};

class EngineTimer {
 public:
  // Reads the file. The driver must outlive this.
  EngineTimer(Driver& driver, EngineTimerOptions options);
  ~EngineTimer();
  EngineTimer(const EngineTimer&) = delete;
  EngineTimer& operator=(const EngineTimer&) = delete;

  // The engine, as LibraryCall::Serialize wrote it, that was chosen for the problem of this text. Empty if
  // none was.
  std::string Known(const std::string& problem) const;
  // The seconds of one run of it; 0 if none was timed.
  double Seconds(const std::string& problem) const;
  // The position of the fastest engine. `operand_bytes`: of x, w and y. Where there is no memory or no time
  // left to find out: 0, the library's first.
  size_t Fastest(const std::string& problem, std::span<const int64_t, 3> operand_bytes,
                 const std::vector<std::unique_ptr<LibraryCall>>& engines);
  // Writes to the file what was chosen since the last call, tells of it, and frees the memory.
  void Keep();

 private:
  // The seconds of one run; less than 0 if it fails.
  double TimeOnce(LibraryCall& engine, std::byte* const operands[4], std::byte* workspace);
  // Those of the shortest of several runs, or of one that takes clearly longer than `least` (0: none does).
  double TimeEngine(LibraryCall& engine, std::byte* const operands[4], std::byte* workspace, double least);
  Status Open();
  // Memory of at least so many bytes.
  Status Reserve(int64_t bytes);
  void SayOnce(bool& told, const std::string& line) const;

  Driver& driver_;
  const EngineTimerOptions options_;
  ChoicesBySite known_, unkept_;
  Stream* stream_ = nullptr;
  Event *from_ = nullptr, *to_ = nullptr;
  std::byte* memory_ = nullptr;
  int64_t memory_bytes_ = 0;
  double seconds_ = 0;  // spent on timing
  bool told_of_work_ = false, told_of_memory_ = false, told_of_time_ = false, told_of_file_ = false;
};

}  // namespace act::cuda
