#include "tests/fuzz/scratch_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace act::fuzz {

ScratchFile::ScratchFile(std::string_view extension) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  path_ = folder / ("act_fuzz_" + std::to_string(getpid()) + "." + std::string(extension));
}

ScratchFile::~ScratchFile() { unlink(path_.c_str()); }

void ScratchFile::Write(std::string_view bytes) const {
  // A new file: a mapping of the last one may still be held, and keeps its bytes.
  unlink(path_.c_str());
  std::ofstream file(path_, std::ios::binary);
  if (!file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) std::abort();
}

}  // namespace act::fuzz
