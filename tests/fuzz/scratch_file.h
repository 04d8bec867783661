// A file in memory (/dev/shm) or in the temporary folder, which one target writes for each input.
#pragma once

#include <string>
#include <string_view>

namespace act::fuzz {

class ScratchFile {
 public:
  // The file's name ends in ".EXTENSION".
  explicit ScratchFile(std::string_view extension);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void Write(std::string_view bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace act::fuzz
