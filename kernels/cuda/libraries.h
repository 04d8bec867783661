// What the backend takes from NVIDIA's libraries: a compiler, convolutions and products. Interfaces of
// standard types alone, as in driver.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/driver.h"

namespace act::cuda {

// ---- Compiling

// A translation unit. `text` includes headers by their paths from the project's root, and
// kernels/cuda/source/device.h among them includes <act_machine.h>, which the compiler has of its own.
struct KernelSource {
  std::string name;  // of the kernel that it defines
  std::string text;
};

// Paths and texts.
using DeviceHeaders = std::vector<std::pair<std::string, std::string>>;

// NVRTC, or a compiler for the host.
class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  // What the image depends on apart from the source: architecture, flags, versions.
  virtual std::string Key() const = 0;
  // "NVRTC 13.0 for sm_90a", for people.
  virtual std::string Name() const = 0;
  // Each of these will be compiled next: for a compiler that makes several at a time more cheaply.
  virtual void Prepare(const std::vector<const KernelSource*>& /*sources*/,
                       const DeviceHeaders& /*headers*/) {}
  // Called from several threads. `log`: warnings, registers, stack and spilled bytes of each kernel.
  virtual Status Compile(const KernelSource& source, const DeviceHeaders& headers,
                         std::vector<std::byte>* image, std::string* log) = 0;
};

// ---- Convolutions and products

enum class FloatMath : uint8_t {
  kStrict,    // float32 operands as they are
  kTf32,      // tensor cores, operands rounded to 10 bits of mantissa
  kBFloat16,  // bfloat16 operands, sums in float32
};

enum class ConvolutionDirection : uint8_t { kForward, kInputGradient, kWeightGradient };

// x [N,spatial..,C] and y [N,spatial..,M] channels-last, w [M,spatial..,C/group] (so that a row of w is
// a window's channels-last elements). All packed and, with kBFloat16, bfloat16. One to three spatial axes.
struct ConvolutionProblem {
  ConvolutionDirection direction = ConvolutionDirection::kForward;
  std::vector<int64_t> x, w, y;  // dims in the orders above
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  int64_t groups = 1;
  int64_t alignment = 16;  // of each operand's address, in bytes: less in a loop over samples of odd sizes
  FloatMath math = FloatMath::kStrict;
  bool accumulates = false;  // the result is added to what is there
  bool operator==(const ConvolutionProblem&) const = default;
};

// c [m,n] = op(a) [m,k] op(b) [k,n] (+ bias [n] on each row, float32), row-major; `batch` of them.
struct ProductProblem {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;  // a is stored [k,m]; b is stored [n,k]
  int64_t stride_a = 0, stride_b = 0,
          stride_c = 0;                        // elements from one of the batch to the next; 0: the same
  int64_t lead_a = 0, lead_b = 0, lead_c = 0;  // elements from one stored row to the next
  bool has_bias = false;
  int64_t alignment = 16;  // of each operand's address, in bytes
  FloatMath math = FloatMath::kStrict;
  bool bfloat16_result = false;  // with kBFloat16, and without a bias; otherwise c is float32
  bool accumulates = false;      // the result is added to what is there
  bool operator==(const ProductProblem&) const = default;
};

// An engine of a library, chosen for one problem. Always the same bits for the same operands.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual int64_t workspace_bytes() const = 0;
  virtual bool uses_tensor_cores() const { return false; }
  virtual std::string engine() const = 0;  // for --verbose=dispatch and `actplan show`
  // Enqueues it. Convolutions: {x, w, y}, of which the direction says which is written. Products: {a, b,
  // c, bias}.
  virtual Status Enqueue(Stream* stream, std::byte* const operands[4], std::byte* workspace) = 0;
  // The engine for ConvolutionLibrary::Load. No bytes: the library cannot write it.
  virtual std::vector<std::byte> Serialize() const { return {}; }
};

class ConvolutionLibrary {
 public:
  virtual ~ConvolutionLibrary() = default;
  // At most `most` deterministic engines whose workspace is at most `limit` bytes, the fastest first by the
  // library's heuristics. None, with the reason, if there is none.
  virtual std::vector<std::unique_ptr<LibraryCall>> Find(const ConvolutionProblem& problem, int64_t limit,
                                                         size_t most, std::string* why) = 0;
  // The first of them, or null.
  std::unique_ptr<LibraryCall> Choose(const ConvolutionProblem& problem, int64_t limit, std::string* why) {
    auto found = Find(problem, limit, 1, why);
    return found.empty() ? nullptr : std::move(found.front());
  }
  // What engines depend on besides the problem, for people too: "cuDNN 9.19.0 on compute capability 9.0 with
  // 132 multiprocessors".
  virtual std::string Key() const = 0;
  // The engine that LibraryCall::Serialize wrote for this problem under the same Key(); nothing is searched.
  // Null, with the reason, if the bytes are damaged, or Find may not name such an engine.
  virtual std::unique_ptr<LibraryCall> Load(const ConvolutionProblem& problem, int64_t limit,
                                            std::span<const std::byte> engine, std::string* why) = 0;
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual std::unique_ptr<LibraryCall> Choose(const ProductProblem& problem, int64_t limit,
                                              std::string* why) = 0;
};

// ---- All of it

// One card with its libraries.
class Toolkit {
 public:
  virtual ~Toolkit() = default;
  virtual Driver& driver() = 0;
  virtual KernelCompiler& compiler() = 0;
  virtual ConvolutionLibrary& convolutions() = 0;
  virtual ProductLibrary& products() = 0;
};

// What a library of the backend exports, under kOpenToolkit: opens card `device`. On failure returns
// null, with one line in *error and what to do in *hint.
inline constexpr char kOpenToolkit[] = "act_cuda_open";
inline constexpr char kToolkitVersion[] = "act_cuda_version";  // const int, equal to:
inline constexpr int kCurrentToolkit = 3;
using OpenToolkit = Toolkit* (*)(int device, std::string* error, std::string* hint);
// NVIDIA's library exports this too: a toolkit for a card that need not be there, "h200" or the path of
// a description. It compiles, chooses engines of convolutions, and has memory for the tables of kernels;
// nothing runs.
inline constexpr char kOpenCard[] = "act_cuda_open_card";
using OpenCard = Toolkit* (*)(const char* card, std::string* error, std::string* hint);

}  // namespace act::cuda
