// Rows of ONNX operators that turn numbers by an angle: Fourier transforms and rotary position embeddings.
#pragma once

#include <cmath>
#include <complex>

#include "tests/compiler/imported_case.h"

namespace act::gradient_case {

struct DftRow {
  Ints dims;
  int64_t axis = 1, length = 0;  // 0: not given
  bool inverse = false, onesided = false;
  int64_t opset = 18;  // from 20 on the axis is an input
};

// By the definition, of complex numbers. Half a spectrum is made whole first.
inline Tensor DftOf(const DftRow& row, const Tensor& x) {
  using Complex = std::complex<double>;
  const auto axis = static_cast<size_t>(row.axis);
  const bool halved = row.onesided && row.inverse, real_input = row.dims.back() == 1;
  const int64_t extent = row.dims[axis];
  const int64_t n = row.length ? row.length : halved ? 2 * (extent - 1) : extent;
  const auto number = [&](Ints at, int64_t i) -> Complex {
    if (halved && i > n / 2) {
      i = n - i;
      if (i >= extent) return 0;
      at[axis] = i;
      at.back() = 0;
      const double real = x.at(at);
      at.back() = 1;
      return {real, -x.at(at)};
    }
    if (i >= extent) return 0;
    at[axis] = i;
    at.back() = 0;
    const double real = x.at(at);
    at.back() = 1;
    return {real, real_input ? 0 : x.at(at)};
  };
  Ints dims = row.dims;
  dims[axis] = row.onesided && !row.inverse ? n / 2 + 1 : n;
  dims.back() = halved ? 1 : 2;
  return truth::Make(dims, [&](const Ints& at) {
    Complex sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double turn =
          2 * M_PI * static_cast<double>(i) * static_cast<double>(at[axis]) / static_cast<double>(n);
      sum += number(at, i) * std::polar(1.0, row.inverse ? turn : -turn);
    }
    if (row.inverse) sum /= static_cast<double>(n);
    return at.back() == 0 ? sum.real() : sum.imag();
  });
}

inline std::vector<OpCase> DftCases() {
  const std::vector<DftRow> rows = {
      {{3, 5, 1}},
      {{3, 6, 2}},
      {{4, 2, 3, 2}, 0},
      {{2, 3, 7, 1}, 2},
      {{3, 1, 2}},
      {{3, 5, 2}, 1, 0, true},
      {{3, 5, 2}, 1, 8},
      {{3, 5, 1}, 1, 3},
      {{3, 5, 1}, 1, 0, false, true},
      {{3, 6, 1}, 1, 0, false, true},
      {{3, 4, 2}, 1, 0, true, true},
      {{3, 4, 2}, 1, 7, true, true},
      {{3, 3, 2}, 1, 8, true, true},  // the rest of the spectrum is 0
      {{3, 6, 2}, 1, 5, true, true},  // and here it is cut
      {{2, 5, 3, 2}, 1, 5, false, false, 20},
  };
  std::vector<OpCase> cases;
  for (const DftRow& row : rows) {
    using testing::Attr;
    std::vector<onnx::AttributeProto> attrs = {Attr("inverse", int64_t{row.inverse}),
                                               Attr("onesided", int64_t{row.onesided})};
    std::vector<Ints> known;
    if (row.length) known.push_back({row.length});
    if (row.opset >= 20)
      known.push_back({row.axis});
    else
      attrs.push_back(Attr("axis", row.axis));
    OpCase c{"DFT of " + ::testing::PrintToString(row.dims) + " along " + std::to_string(row.axis),
             {{row.dims}},
             Imported("DFT", attrs, known, 1, "", row.opset),
             [row](const Tensors& t) { return DftOf(row, t[0]); }};
    if (row.axis != 0) c.batched = {0};
    cases.push_back(std::move(c));
  }
  return cases;
}

struct StftRow {
  Ints dims;  // [N, numbers, 1 or 2], or [N, numbers]
  int64_t step = 1, length = 0;
  bool window = false, onesided = true;
};

// The transform of each frame by itself. Operands: the signal, the window.
inline Tensor StftOf(const StftRow& row, const Tensors& t) {
  const int64_t parts = row.dims.size() == 3 ? row.dims[2] : 1,
                frames = (row.dims[1] - row.length) / row.step + 1;
  const DftRow frame{{row.dims[0], row.length, parts}, 1, 0, false, row.onesided};
  Ints dims = {row.dims[0], frames, row.onesided ? row.length / 2 + 1 : row.length, 2};
  std::vector<Tensor> spectra;
  for (int64_t f = 0; f < frames; ++f) {
    const auto cut = truth::Make(frame.dims, [&](const Ints& at) {
      Ints from = {at[0], f * row.step + at[1], at[2]};
      from.resize(row.dims.size());
      const double x = t[0].at(from);
      return row.window ? x * t[1].at({at[1]}) : x;
    });
    spectra.push_back(DftOf(frame, cut));
  }
  return truth::Make(dims, [&](const Ints& at) {
    return spectra[static_cast<size_t>(at[1])].at({at[0], at[2], at[3]});
  });
}

inline std::vector<OpCase> StftCases() {
  const std::vector<StftRow> rows = {
      {{2, 11, 1}, 3, 4},    {{2, 11, 1}, 2, 5, true},       {{2, 9, 1}, 1, 9},
      {{2, 11}, 3, 4, true}, {{2, 9, 2}, 4, 3, true, false}, {{2, 8, 1}, 2, 6, true, false},
  };
  std::vector<OpCase> cases;
  for (const StftRow& row : rows) {
    OpCase c{"STFT of " + ::testing::PrintToString(row.dims), {{row.dims}}, {}, {}, {0}};
    if (row.window) c.operands.push_back({{row.length}});
    c.build = [row](GraphBuilder& b, const Values& v) {
      std::vector<NodeInput> inputs = {size_t{0}, Ints{row.step}, {}, Ints{row.length}};
      if (row.window) inputs[2] = size_t{1};
      return ImportOne(b, v, NodeOf("STFT", {testing::Attr("onesided", int64_t{row.onesided})}), inputs, 17);
    };
    c.truth = [row](const Tensors& t) { return StftOf(row, t); };
    cases.push_back(std::move(c));
  }
  return cases;
}

struct RotaryRow {
  Ints dims;          // [N, heads, tokens, depth] or [N, tokens, heads depth]
  int64_t heads = 0;  // of three axes
  int64_t turned = 0;
  bool interleaved = false;
  Ints positions = {};  // dims; none: angles are of tokens
  bool microsoft = false;
};
inline constexpr int64_t kAnglePositions = 9;

// Operands: x, cosines, sines, positions; cosines and sines are any numbers.
inline Tensor RotaryOf(const RotaryRow& row, const Tensors& t, size_t cosines, size_t positions) {
  const bool whole = row.dims.size() == 4;
  const int64_t depth = whole ? row.dims[3] : row.dims[2] / row.heads;
  const int64_t turned = row.turned ? row.turned : depth, pairs = turned / 2;
  return truth::Make(row.dims, [&](const Ints& at) {
    const int64_t token = whole ? at[2] : at[1], k = at.back() % depth, head = at.back() - k;
    if (k >= turned) return t[0].at(at);
    const int64_t pair = row.interleaved ? k / 2 : k % pairs;
    const bool second = row.interleaved ? k % 2 == 1 : k >= pairs;
    Ints angle = {at[0], token, pair};
    if (!row.positions.empty())
      angle = {static_cast<int64_t>(t[positions].at({at[0] % row.positions[0], token})), pair};
    const double c = t[cosines].at(angle), s = t[cosines + 1].at(angle);
    Ints first = at, other = at;
    first.back() = head + (row.interleaved ? 2 * pair : pair);
    other.back() = head + (row.interleaved ? 2 * pair + 1 : pair + pairs);
    const double a = t[0].at(first), b = t[0].at(other);
    return second ? s * a + c * b : c * a - s * b;
  });
}

inline std::vector<OpCase> RotaryCases() {
  const std::vector<RotaryRow> rows = {
      {{2, 3, 5, 8}},
      {{2, 3, 5, 8}, 0, 4},
      {{2, 3, 5, 8}, 0, 0, true},
      {{2, 3, 5, 8}, 0, 6, true},
      {{2, 5, 24}, 3},
      {{2, 5, 24}, 3, 6, true, {2, 5}},
      {{2, 3, 5, 8}, 0, 0, false, {2, 5}},
      {{2, 3, 5, 8}, 0, 0, false, {1, 5}},  // the same positions in all samples
      {{2, 5, 24}, 0, 0, false, {2, 5}, true},
  };
  std::vector<OpCase> cases;
  for (const RotaryRow& row : rows) {
    using testing::Attr;
    const std::vector<onnx::AttributeProto> attrs = {Attr("num_heads", row.heads),
                                                     Attr("rotary_embedding_dim", row.turned),
                                                     Attr("interleaved", int64_t{row.interleaved})};
    const bool whole = row.dims.size() == 4;
    const int64_t tokens = row.dims[whole ? 2 : 1];
    const int64_t heads = row.heads ? row.heads : 3, depth = whole ? row.dims[3] : row.dims[2] / heads;
    const int64_t pairs = (row.turned ? row.turned : depth) / 2;
    const Ints angles =
        row.positions.empty() ? Ints{row.dims[0], tokens, pairs} : Ints{kAnglePositions, pairs};
    RotaryRow full = row;
    full.heads = heads;
    OpCase c{"RotaryEmbedding of " + ::testing::PrintToString(row.dims), {{row.dims}}, {}, {}, {0}};
    const bool given = !row.positions.empty();
    const Operand places{row.positions, 0, static_cast<double>(kAnglePositions), Kind::kIndex};
    if (given && row.microsoft) c.operands.push_back(places);
    for (int i = 0; i < 2; ++i) c.operands.push_back({angles});
    if (given && !row.microsoft) c.operands.push_back(places);
    const size_t cosines = given && row.microsoft ? 2 : 1, positions = row.microsoft ? 1 : 3;
    if (row.positions.empty()) c.batched = {0, 1, 2};
    if (given && row.positions[0] > 1) c.batched.push_back(positions);
    const std::string domain = row.microsoft ? onnx_import::kMicrosoft : "";
    c.build = Imported("RotaryEmbedding", attrs, {}, 1, domain, 23);
    c.truth = [=](const Tensors& t) { return RotaryOf(full, t, cosines, positions); };
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace act::gradient_case
