// Reads what the tools write. It shares no code with them, so that a mistake made in both writing
// and reading shows.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace act::e2e {

struct Tensor {
  std::string dtype = "F32";  // the name in safetensors
  std::vector<int64_t> shape;
  std::vector<double> data;  // float32 and float64 exactly; int64 up to 2^53
};

using Tensors = std::map<std::string, Tensor>;

// A safetensors file: 8 bytes of header length, a JSON header, the bytes.
llvm::Expected<Tensors> ReadTensors(const std::string& path);
// Writes the same format from F32 and I64 tensors.
void WriteTensors(const std::string& path, const Tensors& tensors);
llvm::Expected<llvm::json::Object> ReadJson(const std::string& path);

// Square root of the sum of squares, in double.
double Norm(const Tensor& tensor);
// |a - b|. It is infinite if the element counts differ or an element is not finite.
double Distance(const Tensor& a, const Tensor& b);

}  // namespace act::e2e
