// Convolutions and products of the fake: plain loops over float32 operands, with sums in double.
#pragma once

#include "kernels/cuda/libraries.h"
#include "tests/fake_cuda/driver.h"

namespace act::fake {

// What a library has of each problem: operands of the sizes that follow from it, and the loops.
struct LoopCall {
  std::string name;
  int64_t floats[4] = {};    // of each operand; 0: there is none
  bool bfloat16[4] = {};     // which operands are: `compute` sees them as float32
  int result = 2;            // the operand that is written
  bool accumulates = false;  // the result is added to what is there
  int wait_ms = 0;           // before it computes
  int64_t alignment = 16;    // of each operand's address, in bytes
  std::string text = {};     // what LibraryCall::Serialize writes
  std::function<void(float* const operands[4])> compute;
};

// An engine that runs the loops. It needs the workspace that the environment asks for. Null, with the
// reason, if that is more than `limit`.
std::unique_ptr<cuda::LibraryCall> MakeCall(FakeDriver& driver, LoopCall call, int64_t workspace_bytes,
                                            int64_t limit, std::string* why);

class Convolutions : public cuda::ConvolutionLibrary {
 public:
  Convolutions(FakeDriver& driver, const Options& options) : driver_(driver), options_(options) {}
  std::vector<std::unique_ptr<cuda::LibraryCall>> Find(const cuda::ConvolutionProblem& problem, int64_t limit,
                                                       size_t most, std::string* why) override;
  std::string Key() const override {
    return "loops " + std::to_string(options_.library_version) + " with " +
           std::to_string(options_.multiprocessors) + " multiprocessors";
  }
  std::unique_ptr<cuda::LibraryCall> Load(const cuda::ConvolutionProblem& problem, int64_t limit,
                                          std::span<const std::byte> engine, std::string* why) override;
  // Calls of Find and of Load.
  int64_t searched() const { return searched_; }
  int64_t loaded() const { return loaded_; }

 private:
  int64_t WorkspaceBytes(const cuda::ConvolutionProblem& problem) const {
    return options_.library_workspace_bytes + problem.x[0] * options_.sample_workspace_bytes;
  }
  std::unique_ptr<cuda::LibraryCall> Engine(int number, const cuda::ConvolutionProblem& problem,
                                            int64_t limit, std::string* why);

  FakeDriver& driver_;
  const Options options_;
  int64_t searched_ = 0, loaded_ = 0;
};

class Products : public cuda::ProductLibrary {
 public:
  Products(FakeDriver& driver, const Options& options) : driver_(driver), options_(options) {}
  std::unique_ptr<cuda::LibraryCall> Choose(const cuda::ProductProblem& problem, int64_t limit,
                                            std::string* why) override;

 private:
  FakeDriver& driver_;
  const Options options_;
};

}  // namespace act::fake
