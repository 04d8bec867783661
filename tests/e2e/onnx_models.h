// Small ONNX files that tests make themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace act::e2e {

// An extent: a number, or a symbol such as "N".
struct Extent {
  Extent(int64_t v) : value(v) {}       // NOLINT: a number is an extent
  Extent(const char* s) : symbol(s) {}  // NOLINT: a name is an extent
  int64_t value = 0;
  std::string symbol;
};

// A ModelProto under construction: opset 17, IR version 8.
class OnnxModel {
 public:
  OnnxModel();

  OnnxModel& Input(const std::string& name, onnx::TensorProto::DataType type,
                   const std::vector<Extent>& extents);
  OnnxModel& Output(const std::string& name, const std::vector<Extent>& extents);
  // `elements` floats 0.01 * (index mod 7 - 3). -1: as many as the dims say.
  OnnxModel& Weight(const std::string& name, const std::vector<int64_t>& dims, int64_t elements = -1);
  OnnxModel& Node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                  const std::string& output);
  // ReduceMean over `axes`, without keeping them. None: over all, and the result is a scalar.
  OnnxModel& Mean(const std::string& name, const std::string& input, const std::string& output,
                  const std::vector<int64_t>& axes = {});

  std::string Bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::ModelProto model_;
};

// image f32[N,4] -> MatMul "linear" with weight f32[4,3] -> logits f32[N,3]. It has no output yet.
OnnxModel Linear();
// The same, followed by label i64[N] and SoftmaxCrossEntropyLoss "criterion" -> output loss f32[].
OnnxModel Classifier();

}  // namespace act::e2e
