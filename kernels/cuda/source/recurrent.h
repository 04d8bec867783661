// A step of recurrent layers: what follows the product of the state and the weights, and what goes before it in the
// backward pass. A thread has a unit of a sample. It reads what it needs before it writes: slopes may lie where
// pre-activations do, and gradients where slopes do.
#pragma once

#include "kernels/cuda/source/fused_math.h"
#include "kernels/cuda/source/recurrent_parameters.h"

namespace act::cuda {

// A thread's unit, and where it lies.
template <int kGates>
struct RecurrentUnit {
  int32_t item, unit;
  int64_t sample, at, gates;  // at: in [N,T,H]; gates: its first gate in [N,T,G H]
  int32_t units;

  ACT_DEVICE RecurrentUnit(const RecurrentParameters& p, int32_t i) : item(i), units(p.units.by) {
    int32_t n = i;
    unit = Split(p.units, n);
    sample = n;
    at = (sample * p.steps + p.time) * units + unit;
    gates = (sample * p.steps + p.time) * kGates * units + unit;
  }
  ACT_DEVICE int64_t Gate(int g) const { return gates + int64_t{g} * units; }
  // What the state adds to a pre-activation.
  ACT_DEVICE float Product(const RecurrentParameters& p, int g) const {
    return p.products ? Load(p.products + (sample * kGates + g) * units + unit) : 0;
  }
  ACT_DEVICE float Before(const RecurrentParameters& p) const {
    return p.before ? Load(p.before + sample * p.before_row + unit) : 0;
  }
};

ACT_DEVICE int32_t RecurrentItem() {
  return static_cast<int32_t>(int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
}
ACT_DEVICE float OptionalAt(const float* from, int64_t at) { return from ? Load(from + at) : 0; }

ACT_DEVICE void Lstm(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<4> u(p, RecurrentItem());
  float x[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) x[g] = Load(p.gates + u.Gate(g)) + u.Product(p, g);
  const float i = Sigmoid(x[0]), o = Sigmoid(x[1]), f = Sigmoid(x[2]), g = HyperbolicTangent(x[3]);
  const float before = p.first ? OptionalAt(p.c0, u.item) : Load(p.c + u.item);
  const float cell = f * before + i * g, squashed = HyperbolicTangent(cell);
  Store(p.c + u.item, cell);
  Store(p.slopes + u.Gate(0), g * i * (1 - i));
  Store(p.slopes + u.Gate(1), squashed * o * (1 - o));
  Store(p.slopes + u.Gate(2), before * f * (1 - f));
  Store(p.slopes + u.Gate(3), i * (1 - g * g));
  Store(p.to_c_by_h + u.at, o * (1 - squashed * squashed));
  Store(p.to_forget + u.at, f);
  Store(p.y + u.at, o * squashed);
}

ACT_DEVICE void LstmGrad(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<4> u(p, RecurrentItem());
  float slope[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) slope[g] = Load(p.gates + u.Gate(g));
  const float h = (p.first ? 0 : Load(p.dh + u.item)) + OptionalAt(p.dy, u.at);
  const float cell = (p.first ? OptionalAt(p.c0, u.item) : Load(p.dc + u.item)) + h * Load(p.c_by_h + u.at);
  Store(p.dc + u.item, cell * Load(p.forget + u.at));
#pragma unroll
  for (int g = 0; g < 4; ++g) Store(p.dx + u.Gate(g), (g == 1 ? h : cell) * slope[g]);
}

ACT_DEVICE void Gru(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<3> u(p, RecurrentItem());
  float x[3];
#pragma unroll
  for (int g = 0; g < 3; ++g) x[g] = Load(p.gates + u.Gate(g));
  const float z = Sigmoid(x[0] + u.Product(p, 0)), r = Sigmoid(x[1] + u.Product(p, 1));
  const float q = u.Product(p, 2) + OptionalAt(p.bias, u.unit);
  const float candidate = HyperbolicTangent(x[2] + r * q), before = u.Before(p);
  Store(p.slopes + u.Gate(0), (before - candidate) * z * (1 - z));
  Store(p.slopes + u.Gate(1), q * r * (1 - r));
  Store(p.slopes + u.Gate(2), (1 - z) * (1 - candidate * candidate));
  Store(p.to_reset + u.at, r);
  Store(p.to_update + u.at, z);
  Store(p.y + u.at, (1 - z) * candidate + z * before);
}

// The products are added to what it leaves in dh.
ACT_DEVICE void GruGrad(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<3> u(p, RecurrentItem());
  float slope[3];
#pragma unroll
  for (int g = 0; g < 3; ++g) slope[g] = Load(p.gates + u.Gate(g));
  const float reset = Load(p.reset + u.at), update = Load(p.update + u.at);
  const float h = (p.first ? 0 : Load(p.dh + u.item)) + Load(p.dy + u.at), candidate = h * slope[2];
  Store(p.dx + u.Gate(0), h * slope[0]);
  Store(p.dx + u.Gate(1), candidate * slope[1]);
  Store(p.dx + u.Gate(2), candidate);
  Store(p.dq + u.at, candidate * reset);
  Store(p.dh + u.item, h * update);
}

ACT_DEVICE void Rnn(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<1> u(p, RecurrentItem());
  const float sum = Load(p.gates + u.at) + u.Product(p, 0);
  Store(p.y + u.at, p.relu ? Relu(sum) : HyperbolicTangent(sum));
}

ACT_DEVICE void RnnGrad(const RecurrentParameters& p) {
  if (RecurrentItem() >= p.items) return;
  const RecurrentUnit<1> u(p, RecurrentItem());
  const float slope = Load(p.gates + u.at);
  Store(p.dx + u.at, ((p.first ? 0 : Load(p.dh + u.item)) + Load(p.dy + u.at)) * slope);
}

}  // namespace act::cuda
