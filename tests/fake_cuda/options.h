// What a test may ask of the fake by environment variables (README.md).
#pragma once

#include <cstdint>
#include <string>

namespace act::fake {

struct Options {
  uint64_t seed = 1;
  int64_t card_bytes = int64_t{16} << 30;
  int multiprocessors = 4;
  int driver_version = 13000;
  bool no_device = false;
  int64_t fail_allocation = 0;  // the k-th one, from 1; 0: none
  int64_t fail_launch = 0;      // the k-th run of a kernel, from 1; 0: none
  int64_t stolen_bytes = 0;     // taken by another process after the first question for free bytes
  int64_t library_workspace_bytes = 0;
  int64_t sample_workspace_bytes = 0;  // of convolutions: beside these, for each sample
  int library_version = 1;
  int engines = 1;  // of a convolution; each but the last waits
  bool no_convolutions = false, no_products = false;
  std::string cache_folder;
};

Options OptionsOfEnvironment();

}  // namespace act::fake
