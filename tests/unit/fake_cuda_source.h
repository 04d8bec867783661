// Kernels that tests of the fake card write themselves, in one line or a few.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/cuda_testing.h"

namespace act {

#define EXPECT_SUBSTRING(part, text) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)

// What such a kernel gets. A test uses what it needs.
struct Pieces {
  float* x;
  float* y;
  uint32_t* words;
  int64_t count;
};

// A translation unit with the kernel `name` of at most 1,024 threads. `p` is the Pieces, `i` the thread
// of the grid.
inline cuda::KernelSource SourceOf(const std::string& name, const std::string& body,
                                   const std::string& before = "") {
  return {name,
          "#include \"kernels/cuda/source/device.h\"\n"
          "struct Pieces { float* x; float* y; uint32_t* words; int64_t count; };\n" +
              before + "ACT_KERNEL(" + name +
              ", 1024, Pieces, p) {\n"
              "  [[maybe_unused]] const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;\n" +
              body + "\n}\n"};
}

// Memory of a card for as long as a test needs it, with 4-byte elements.
class CardArray {
 public:
  CardArray(TestCard& card, int64_t count) : card_(card), count_(count), memory_(card.Allocate(count * 4)) {}
  ~CardArray() { card_.Free(memory_); }
  CardArray(const CardArray&) = delete;
  CardArray& operator=(const CardArray&) = delete;

  template <class T>
  T* as() const {
    return memory_.as<T>();
  }
  DevicePointer memory() const { return memory_; }
  template <class T>
  void Set(const std::vector<T>& values) {
    card_.Upload(memory_, values.data(), count_ * 4);
  }
  template <class T>
  std::vector<T> Get() {
    std::vector<T> values(static_cast<size_t>(count_));
    card_.Download(values.data(), memory_, count_ * 4);
    return values;
  }

 private:
  TestCard& card_;
  const int64_t count_;
  const DevicePointer memory_;
};

// The function of a source, compiled now.
inline const cuda::CompiledKernel& Compiled(TestCard& card, const cuda::KernelSource& source) {
  const cuda::CompiledKernel* kernel = card.cache().Request(source);
  EXPECT_EQ(card.cache().CompileAll(), "");
  return *kernel;
}

// Compiles and launches the kernel, and waits. Returns the error.
inline std::string RunSource(TestCard& card, const cuda::KernelSource& source, const Pieces& p,
                             int64_t blocks, int threads, int64_t shared_bytes = 0) {
  const std::string error =
      cuda::Launch(card.context(), Compiled(card, source), blocks, threads, p, shared_bytes);
  const std::string later = card.Wait();
  return error.empty() ? later : error;
}

}  // namespace act
