// A fused node at one batch size: what its program, operands and results must agree on before a
// kernel touches memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/kernel.h"

namespace act {

struct FusedShape {
  std::vector<int64_t> dims;  // iteration space
  int64_t count = 0;          // elements of the space
  int64_t samples = 0;        // CodeSamplesOf(space): codes and random numbers are laid out per sample
  int64_t elements = 0;       // of one sample
  // samples here for each sample of the batch: 12 if the first axis is 12N
  int64_t samples_each = 1;
  int64_t row = 1;  // of one row (Program::row_axes); 1 if there are no rows
};

// The shape of a site whose program passed CheckProgram. Nullopt, with the reason in *why, if an
// operand does not broadcast to the space, if a code or a result has the wrong size, or if fused
// loops do not convert a type.
std::optional<FusedShape> FusedShapeOf(const KernelSite& site, std::string* why);

// ONNX's (numpy's) rules. Axes of the operand that the space does not have must have extent 1.
bool BroadcastsTo(const std::vector<int64_t>& operand, const std::vector<int64_t>& space);
// The program's codecs that come from plugins.
std::vector<Codec> PluginCodecsOf(const Program& program);
// What the checks of their calls have found, or "".
std::string PluginFaultOf(const std::vector<Codec>& codecs);

// Strides in elements, one per axis of the space, of an operand that broadcasts to it; 0 along
// broadcast axes.
std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& operand, const std::vector<int64_t>& space);

// Value of a constant register at this batch size.
float ConstantAt(const ProgramConstant& constant, int64_t batch);

}  // namespace act
