// Loops as plans have them: those of a residual network, of a transformer's layer, and updates of parameters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/random_program.h"

namespace act {

struct NetworkLoop {
  std::string name;
  RandomCase loop;
  std::vector<std::pair<size_t, size_t>> in_place;  // result, operand
};

// Writes programs: operands first, then constants.
class LoopBuilder {
 public:
  LoopBuilder(std::string name, Dims space) {
    made_.name = std::move(name), made_.loop.program.space = std::move(space);
  }

  int32_t In(Dims dims, Codec codec = {}, bool mask = false) {
    program().inputs.push_back({std::move(codec), static_cast<int32_t>(program().inputs.size()), mask});
    made_.loop.inputs.push_back({DType::kFloat32, std::move(dims)});
    return program().FirstConstant() - 1;
  }
  int32_t Full(Codec codec = {}, bool mask = false) { return In(program().space, std::move(codec), mask); }
  int32_t Column() { return In({program().space.back()}); }
  int32_t Scalar() { return In({}); }
  int32_t Constant(float value) {
    program().constants.push_back({value, Dim(0)});
    return program().FirstInstr() - 1;
  }
  int32_t Op(Opcode op, int32_t a, int32_t b = -1, int32_t c = -1) { return made_.loop.Op(op, a, b, c); }
  void Out(OutputKind kind, int32_t reg, Codec codec = {}) {
    const auto stream = static_cast<int32_t>(100 + program().outputs.size());
    program().outputs.push_back({kind, reg, std::move(codec), stream});
    Dims dims = program().space;
    if (kind == OutputKind::kSum) dims = {dims.back()};
    if (kind == OutputKind::kRowStore) dims.pop_back();
    made_.loop.outputs.push_back({DType::kFloat32, dims});
  }
  // Result `output` is to be made in operand `input`.
  void InPlace(size_t output, int32_t input) {
    made_.in_place.emplace_back(output, static_cast<size_t>(input));
  }
  void Rows() { program().row_axes = 1; }
  NetworkLoop Loop(int64_t batch) {
    made_.loop.batch = batch;
    return std::move(made_);
  }

 private:
  Program& program() { return made_.loop.program; }
  NetworkLoop made_;
};

// y = relu(xhat gamma + beta), with the codes of xhat and of the mask.
inline NetworkLoop BatchNormReluEncode(const Dims& space, int64_t batch, const Codec& codec) {
  LoopBuilder b("batch norm, relu, encode", space);
  const int32_t x = b.Full(), mean = b.Column(), rstd = b.Column(), gamma = b.Column(), beta = b.Column(),
                zero = b.Constant(0);
  const int32_t xhat = b.Op(Opcode::kMul, b.Op(Opcode::kSub, x, mean), rstd);
  const int32_t y = b.Op(Opcode::kMax, b.Op(Opcode::kAdd, b.Op(Opcode::kMul, xhat, gamma), beta), zero);
  b.Out(OutputKind::kStore, y);
  b.Out(OutputKind::kEncode, xhat, codec);
  b.Out(OutputKind::kEncode, y, Codec::Mask());
  b.InPlace(0, x);
  return b.Loop(batch);
}

// relu(x scale + shift + skip), and the code of x's distance from the least, with the mask.
inline NetworkLoop ResidualEncode(const Dims& space, int64_t batch) {
  LoopBuilder b("residual sum, encode", space);
  const int32_t x = b.Full(), skip = b.Full(), scale = b.Column(), shift = b.Column(), rstd = b.Column(),
                offset = b.Column(), zero = b.Constant(0), least = b.Constant(1e-30f);
  const int32_t y = b.Op(Opcode::kMax, b.Op(Opcode::kAdd, b.Op(Opcode::kFma, x, scale, shift), skip), zero);
  const int32_t distance = b.Op(Opcode::kMax, b.Op(Opcode::kFma, x, rstd, offset), least);
  b.Out(OutputKind::kStore, y);
  b.Out(OutputKind::kEncode,
        b.Op(Opcode::kSelect, b.Op(Opcode::kGreater, y, zero), distance, b.Op(Opcode::kNeg, distance)),
        Codec::Sign(3, 2).With(Metadata::kSides));
  b.InPlace(0, x);
  return b.Loop(batch);
}

// A convolution's input, from the code that it shares with the normalization and the mask before it.
inline NetworkLoop Rebuild(const Dims& space, int64_t batch, const Codec& codec) {
  LoopBuilder b("rebuilt input", space);
  const int32_t v = b.Full(codec), scale = b.Column(), shift = b.Column(), gamma = b.Column(),
                beta = b.Column(), mask = b.Full(codec, true);
  const int32_t xhat = b.Op(Opcode::kFma, v, scale, shift);
  const int32_t y = b.Op(Opcode::kAdd, b.Op(Opcode::kMul, xhat, gamma), beta);
  b.Out(OutputKind::kStore, b.Op(Opcode::kMul, y, mask));
  return b.Loop(batch);
}

// sum(dy mask), sum(dy mask xhat)
inline NetworkLoop BatchNormGradReduce(const Dims& space, int64_t batch, const Codec& codec) {
  LoopBuilder b("sums of a batch norm's gradient", space);
  const int32_t dy = b.Full(), mask = b.Full(Codec::Mask()), xhat = b.Full(codec);
  const int32_t d = b.Op(Opcode::kMul, dy, mask);
  b.Out(OutputKind::kSum, d);
  b.Out(OutputKind::kSum, b.Op(Opcode::kMul, d, xhat));
  return b.Loop(batch);
}

// dx = scale (dy mask - dbeta - xhat dgamma)
inline NetworkLoop BatchNormGradApply(const Dims& space, int64_t batch, const Codec& codec) {
  LoopBuilder b("a batch norm's gradient", space);
  const int32_t dy = b.Full(), mask = b.Full(Codec::Mask()), xhat = b.Full(codec), scale = b.Column(),
                dbeta = b.Column(), dgamma = b.Column();
  const int32_t d = b.Op(Opcode::kSub, b.Op(Opcode::kMul, dy, mask), dbeta);
  b.Out(OutputKind::kStore,
        b.Op(Opcode::kMul, scale, b.Op(Opcode::kSub, d, b.Op(Opcode::kMul, xhat, dgamma))));
  b.InPlace(0, dy);
  return b.Loop(batch);
}

// Normalized rows and their code, and what the gradient needs.
inline NetworkLoop LayerNormEncode(const Dims& space, int64_t batch) {
  LoopBuilder b("layer norm, encode", space);
  b.Rows();
  const int32_t x = b.Full(), gamma = b.Column(), beta = b.Column(),
                inverse = b.Constant(1 / static_cast<float>(space.back().fixed)), eps = b.Constant(1e-5f),
                one = b.Constant(1);
  const int32_t mean = b.Op(Opcode::kMul, b.Op(Opcode::kRowSum, x), inverse);
  const int32_t centered = b.Op(Opcode::kSub, x, mean);
  const int32_t sum = b.Op(Opcode::kRowSum, b.Op(Opcode::kMul, centered, centered));
  const int32_t rstd = b.Op(Opcode::kDiv, one, b.Op(Opcode::kSqrt, b.Op(Opcode::kFma, sum, inverse, eps)));
  const int32_t xhat = b.Op(Opcode::kMul, centered, rstd);
  b.Out(OutputKind::kStore, b.Op(Opcode::kAdd, b.Op(Opcode::kMul, xhat, gamma), beta));
  b.Out(OutputKind::kEncode, xhat, Codec::Uniform(4).With(Metadata::kLogPair));
  b.Out(OutputKind::kStore, xhat);
  b.Out(OutputKind::kRowStore, rstd);
  return b.Loop(batch);
}

inline NetworkLoop GeluDropout(const Dims& space, int64_t batch) {
  LoopBuilder b("gelu and dropout", space);
  const int32_t x = b.Full(), root = b.Constant(.70710678f), half = b.Constant(.5f), one = b.Constant(1);
  const int32_t erf = b.Op(Opcode::kErf, b.Op(Opcode::kMul, x, root));
  const int32_t y = b.Op(Opcode::kMul, b.Op(Opcode::kMul, x, half), b.Op(Opcode::kAdd, erf, one));
  b.Out(OutputKind::kStore, b.Op(Opcode::kDropout, y));
  NetworkLoop loop = b.Loop(batch);
  loop.loop.program.instrs.back().parameter = .1f;
  return loop;
}

inline NetworkLoop AdamUpdate(const Dims& space) {
  LoopBuilder b("Adam", space);
  const int32_t p = b.Full(), g = b.Full(), m = b.Full(), v = b.Full();
  const int32_t lr = b.Scalar(), rest1 = b.Scalar(), beta2 = b.Scalar(), rest2 = b.Scalar(),
                root = b.Scalar(), eps = b.Scalar(), decay = b.Scalar();
  const int32_t d = b.Op(Opcode::kFma, decay, p, g);
  const int32_t first = b.Op(Opcode::kFma, rest1, b.Op(Opcode::kSub, d, m), m);
  const int32_t second = b.Op(Opcode::kFma, beta2, v, b.Op(Opcode::kMul, rest2, b.Op(Opcode::kMul, d, d)));
  const int32_t divisor = b.Op(Opcode::kFma, root, b.Op(Opcode::kSqrt, b.Op(Opcode::kAbs, second)), eps);
  b.Out(OutputKind::kStore,
        b.Op(Opcode::kSub, p, b.Op(Opcode::kDiv, b.Op(Opcode::kMul, lr, first), divisor)));
  b.Out(OutputKind::kStore, first);
  b.Out(OutputKind::kStore, second);
  b.InPlace(0, p), b.InPlace(1, m), b.InPlace(2, v);
  return b.Loop(1);
}

// The same with operands and results of the whole space in bfloat16.
inline NetworkLoop InBFloat16(NetworkLoop loop) {
  const Dims& space = loop.loop.program.space;
  for (std::vector<TensorType>* types : {&loop.loop.inputs, &loop.loop.outputs})
    for (TensorType& type : *types)
      if (type.dtype == DType::kFloat32 && type.dims == space) type.dtype = DType::kBFloat16;
  return loop;
}

inline std::vector<NetworkLoop> NetworkLoops() {
  const Codec six = Codec::Sign(3, 2).With(Metadata::kLogPair);
  const Codec fitted = Codec::Sign(3, 2).OfLevels(6).With(Metadata::kLogPair).Fitted();
  const auto space = [](int64_t side, int64_t channels) {
    return Dims{Dim::Batch(), Dim(side), Dim(side), Dim(channels)};
  };
  return {BatchNormReluEncode(space(28, 64), 3, Codec::Uniform(3)),
          BatchNormReluEncode(space(16, 256), 2, Codec::Uniform(4).OfLevels(6)),
          ResidualEncode(space(16, 256), 2),
          Rebuild(space(16, 256), 2, six),
          Rebuild(space(16, 64), 2, fitted),
          BatchNormGradReduce(space(28, 64), 3, Codec::Uniform(3)),
          BatchNormGradReduce(space(8, 2048), 2, six),
          BatchNormGradApply(space(16, 512), 2, Codec::Uniform(3)),
          LayerNormEncode({Dim::Batch(), Dim(12), Dim(768)}, 3),
          GeluDropout({Dim::Batch(), Dim(16), Dim(3072)}, 2),
          AdamUpdate({Dim(64), Dim(3), Dim(7), Dim(7)}),
          AdamUpdate({Dim(512), Dim(64)})};
}

}  // namespace act
