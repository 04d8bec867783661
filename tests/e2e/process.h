// Runs the built tools as a user's shell does, and keeps their output.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace act::e2e {

struct Outcome {
  int exit_code = -1;  // 128 + n if signal n ended it
  std::string out, err;
};

// The path of actc, actrun or actplan.
std::string ToolPath(const std::string& tool);

struct Limits {
  unsigned seconds = 300;  // a longer run is ended and has exit code 124
  // Writing further fails, as on a full disk. 0: no limit.
  int64_t largest_file_bytes = 0;
  // Ctrl-C (SIGINT) once standard error holds this text. Empty: never.
  std::string interrupt_at = {};
  // Called then, instead of Ctrl-C.
  std::function<void()> instead = nullptr;
};

// args[0] is a path. Without --tune, and without ACT_TUNE in the environment, kernels are chosen in a fixed
// order.
Outcome RunTool(const std::vector<std::string>& args, const Limits& limits = {});

// "actc model.onnx -O L0: exit 1" and the ends of both outputs, as the text of a failing assertion.
std::string Describe(const std::vector<std::string>& args, const Outcome& outcome);

// A folder of its own in the system's temporary folder, removed with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Empty if the file cannot be read.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);
bool Exists(const std::string& path);
// The names in a folder, sorted.
std::vector<std::string> List(const std::string& folder);

}  // namespace act::e2e
