#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/math/convert.h"
#include "tests/fake_cuda/libraries.h"

namespace act::fake {
namespace {

class Call : public cuda::LibraryCall {
 public:
  Call(FakeDriver& driver, LoopCall call, int64_t workspace_bytes)
      : driver_(driver), call_(std::move(call)), workspace_bytes_(workspace_bytes) {}

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string engine() const override { return "fake"; }
  std::vector<std::byte> Serialize() const override {
    const auto bytes = std::as_bytes(std::span(call_.text));
    return {bytes.begin(), bytes.end()};
  }

  cuda::Status Enqueue(cuda::Stream* stream, std::byte* const operands[4], std::byte* workspace) override {
    struct Given {
      std::byte* operands[4];
      std::byte* workspace;
    } given;
    for (int i = 0; i < 4; ++i) given.operands[i] = call_.floats[i] > 0 ? operands[i] : nullptr;
    given.workspace = workspace;
    return driver_.Enqueue(stream, {[this, given] { return Run(given.operands, given.workspace); }});
  }

 private:
  std::string Run(std::byte* const operands[4], std::byte* workspace) const {
    Memory& memory = driver_.memory();
    float* seen[4] = {};
    for (int i = 0; i < 4; ++i) {
      if (call_.floats[i] == 0) continue;
      std::string why = memory.Check(operands[i], call_.floats[i] * (call_.bfloat16[i] ? 2 : 4));
      if (why.empty() &&
          reinterpret_cast<uintptr_t>(operands[i]) % static_cast<uintptr_t>(call_.alignment) != 0)
        why = "not aligned to " + std::to_string(call_.alignment) + " bytes";
      if (!why.empty()) return call_.name + ", operand " + std::to_string(i) + ": " + why;
      seen[i] = reinterpret_cast<float*>(memory.Alias(operands[i]));
    }
    if (workspace_bytes_ > 0) {
      const std::string why = memory.Check(workspace, workspace_bytes_);
      if (!why.empty()) return call_.name + ", workspace: " + why;
      std::memset(memory.Alias(workspace), 0xff, static_cast<size_t>(workspace_bytes_));
    }
    if (call_.wait_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(call_.wait_ms));
    Compute(seen);
    return "";
  }

  // Bfloat16 operands are widened for `compute`, and a bfloat16 result is rounded to nearest even.
  void Compute(float* (&seen)[4]) const {
    std::vector<float> wide[4], before;
    float* const result = seen[call_.result];
    const auto count = static_cast<size_t>(call_.floats[call_.result]);
    for (int i = 0; i < 4; ++i) {
      if (!call_.bfloat16[i] || call_.floats[i] == 0) continue;
      const auto* narrow = reinterpret_cast<const BFloat16*>(seen[i]);
      wide[i].resize(static_cast<size_t>(call_.floats[i]));
      for (size_t e = 0; e < wide[i].size(); ++e) wide[i][e] = ToFloat(narrow[e]);
      seen[i] = wide[i].data();
    }
    float* made = seen[call_.result];
    if (call_.accumulates) before.assign(made, made + count);
    call_.compute(seen);
    for (size_t e = 0; e < before.size(); ++e) made[e] += before[e];
    if (made != result)
      for (size_t e = 0; e < count; ++e)
        reinterpret_cast<BFloat16*>(result)[e] = FromFloat<BFloat16>(made[e]);
  }

  FakeDriver& driver_;
  const LoopCall call_;
  const int64_t workspace_bytes_;
};

}  // namespace

std::unique_ptr<cuda::LibraryCall> MakeCall(FakeDriver& driver, LoopCall call, int64_t workspace_bytes,
                                            int64_t limit, std::string* why) {
  if (workspace_bytes > limit) {
    *why = "the fake's engine needs " + std::to_string(workspace_bytes) + " bytes of workspace, of at most " +
           std::to_string(limit);
    return nullptr;
  }
  return std::make_unique<Call>(driver, std::move(call), workspace_bytes);
}

}  // namespace act::fake
