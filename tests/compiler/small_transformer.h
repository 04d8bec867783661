// A small transformer, as a model that was imported.
#pragma once

#include <cmath>
#include <random>
#include <string>

#include "tests/compiler/compiled_step.h"

namespace act::small_transformer {

using testing_step::Take;

// GELU with layer norms, or SiLU times a second product with RMS norms and rotary embeddings.
enum class Kind { kGelu, kGated };

// Blocks of attention and a perceptron on tokens [samples, kTokens, kWidth], with dropout on the
// probabilities and on the GELU's results.
class Transformer {
 public:
  static constexpr int64_t kTokens = 12, kWidth = 16, kHeads = 2, kHidden = 48;

  Transformer(Dim samples, Kind kind) : builder_(graph_), samples_(samples), kind_(kind) {
    x_ = builder_.Input("tokens", Type({samples_, kTokens, kWidth}), ValueKind::kInput);
    x_ = Product(x_, kWidth, kWidth, "embed");
  }

  // Of the blocks that follow: queries and keys of each head are normalized, and their products multiplied by `scale`.
  void NormalizeQueries(double scale) { scale_of_normalized_ = scale; }

  void Block(const std::string& name) {
    ValueId h = Norm(x_, name + ".ln1");
    const Dims heads{samples_, kTokens, kHeads, kWidth / kHeads};
    const auto part = [&](const char* which) {
      return Take(builder_.Reshape(Product(h, kWidth, kWidth, name + which), heads));
    };
    Attributes attrs;
    for (const char* perm : {"perm_q", "perm_k", "perm_v", "perm_o"})
      attrs.Set(perm, std::vector<int64_t>{0, 2, 1, 3});
    attrs.Set("scale", scale_of_normalized_ > 0 ? scale_of_normalized_ : .35);
    attrs.Set("probability", .1);
    attrs.Set("stream", int64_t{1000 + stream_++});
    ValueId q = part(".q"), k = part(".k");
    const ValueId v = part(".v");
    if (scale_of_normalized_ > 0) {
      q = OfHeads(q, name + ".q_norm");
      k = OfHeads(k, name + ".k_norm");
    }
    if (kind_ == Kind::kGated) {
      q = Rotated(q, name + ".rotated_q");
      k = Rotated(k, name + ".rotated_k");
    }
    const ValueId o = Take(builder_.Add1("Attention", {q, k, v}, attrs, name + ".attention"));
    const ValueId flat = Take(builder_.Reshape(o, {samples_, kTokens, kWidth}));
    x_ = Add(x_, Product(flat, kWidth, kWidth, name + ".out"));
    h = Norm(x_, name + ".ln2");
    ValueId u = Product(h, kWidth, kHidden, name + ".fc1");
    if (kind_ == Kind::kGated) {
      const ValueId up = Product(h, kWidth, kHidden, name + ".up");
      u = Take(builder_.Add1("Mul", {Take(builder_.Add1("Silu", {u}, {}, name + ".silu")), up}, {},
                             name + ".gate"));
    } else {
      Attributes dropout;
      dropout.Set("probability", .2);
      dropout.Set("stream", int64_t{1000 + stream_++});
      u = Take(builder_.Add1("Dropout", {Take(builder_.Add1("Gelu", {u}, {}, name + ".gelu"))}, dropout,
                             name + ".dropout"));
    }
    x_ = Add(x_, Product(u, kHidden, kWidth, name + ".fc2"));
  }

  ImportResult Build() {
    const ValueId h = Norm(x_, "head.ln");
    Attributes all;
    all.Set("axes", std::vector<int64_t>{0, 1, 2});
    all.Set("keepdims", int64_t{0});
    const ValueId squares = Take(builder_.Add1("Square", {Product(h, kWidth, 1, "head")}, {}, "squares"));
    graph_.outputs = {Take(builder_.Add1("ReduceMean", {squares}, all, "loss"))};
    return testing_step::ModelOf(graph_);
  }

 private:
  static TensorType Type(Dims dims) { return {DType::kFloat32, std::move(dims)}; }

  ValueId Weight(const std::string& name, Dims dims, float mean, float deviation) {
    const TensorType type = Type(std::move(dims));
    std::vector<float> values(static_cast<size_t>(type.Elements().fixed));
    for (float& v : values) v = std::normal_distribution<float>(mean, deviation)(engine_);
    return builder_.Input(name, type, ValueKind::kParameter, testing_step::HostFloats(values));
  }

  ValueId Add(ValueId a, ValueId b) { return Take(builder_.Add1("Add", {a, b}, {}, "sum")); }

  ValueId Product(ValueId x, int64_t from, int64_t to, const std::string& name) {
    const ValueId w = Weight(name + ".w", {from, to}, 0, .3f);
    return Take(builder_.Add1(
        "Add", {Take(builder_.Add1("MatMul", {x, w}, {}, name)), Weight(name + ".b", {to}, 0, .1f)}, {},
        name + ".bias"));
  }

  // x cos + (-x2, x1) sin, of heads [samples, kTokens, kHeads, 2 half] with halves x1, x2.
  ValueId Rotated(ValueId x, const std::string& name) {
    constexpr int64_t kHalf = kWidth / kHeads / 2;
    const Dims part{samples_, kTokens, kHeads, kHalf};
    const auto half = [&](int64_t first) {
      return Take(builder_.Slice(x, {0, 0, 0, first}, part, {1, 1, 1, 1}, name));
    };
    const auto times = [&](ValueId v, float (*function)(float)) {
      std::vector<float> numbers;
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t i = 0; i < 2 * kHalf; ++i)
          numbers.push_back(function(static_cast<float>(t) / static_cast<float>(1 + i % kHalf)));
      const ValueId angles =
          builder_.Constant("", Type({kTokens, 1, 2 * kHalf}), testing_step::HostFloats(numbers));
      return Take(builder_.Add1("Mul", {v, angles}, {}, name));
    };
    Attributes last;
    last.Set("axis", int64_t{3});
    const ValueId swapped = Take(
        builder_.Add1("Concat", {Take(builder_.Add1("Neg", {half(kHalf)}, {}, name)), half(0)}, last, name));
    return Take(builder_.Add1("Add", {times(x, std::cos), times(swapped, std::sin)}, {}, name));
  }

  ValueId Norm(ValueId x, const std::string& name) {
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{2});
    attrs.Set("epsilon", 1e-5);
    attrs.Set("center", int64_t{kind_ != Kind::kGated});
    std::vector<ValueId> operands{x, Weight(name + ".gamma", {kWidth}, 1, .1f)};
    if (kind_ != Kind::kGated) operands.push_back(Weight(name + ".beta", {kWidth}, 0, .1f));
    return Take(builder_.Add1("LayerNorm", operands, attrs, name));
  }

  // The RMS norm of each head.
  ValueId OfHeads(ValueId x, const std::string& name) {
    Attributes attrs;
    attrs.Set("axes", std::vector<int64_t>{3});
    attrs.Set("epsilon", 1e-5);
    attrs.Set("center", int64_t{0});
    return Take(
        builder_.Add1("LayerNorm", {x, Weight(name + ".gamma", {kWidth / kHeads}, 1, .1f)}, attrs, name));
  }

  Graph graph_;
  GraphBuilder builder_;
  const Dim samples_;
  const Kind kind_;
  std::mt19937 engine_{3};
  ValueId x_ = kNoValue;
  double scale_of_normalized_ = 0;  // 0: queries and keys are not normalized
  int64_t stream_ = 0;
};

}  // namespace act::small_transformer
