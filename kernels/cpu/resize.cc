#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"

namespace act {
namespace {

// What one coordinate mixes: coordinates of the other side, with weights.
struct Term {
  int64_t at;
  float weight;
};
using Terms = std::vector<std::vector<Term>>;  // [coordinate]

Terms ForwardTerms(const ResizeAxis& axis) {
  Terms terms;
  for (const ResizeAxis::Tap& tap : axis.taps) {
    terms.emplace_back();
    if (tap.t < 1) terms.back().push_back({tap.low, 1 - tap.t});
    if (tap.t > 0) terms.back().push_back({tap.high, tap.t});
  }
  return terms;
}

// The same pairs by input coordinate. Outputs ascend.
Terms BackwardTerms(const ResizeAxis& axis) {
  Terms terms(static_cast<size_t>(axis.in));
  const Terms forward = ForwardTerms(axis);
  for (size_t o = 0; o < forward.size(); ++o)
    for (const Term& term : forward[o])
      terms[static_cast<size_t>(term.at)].push_back({static_cast<int64_t>(o), term.weight});
  return terms;
}

ACT_VECTOR_CLONES void AddScaled(const float* x, float scale, int64_t count, float* y) {
  for (int64_t c = 0; c < count; ++c) y[c] += scale * x[c];
}

// to[n, i, :] = sum over the terms of i of weight * from[n, o, :]. One thread computes each pixel.
class Mixer {
 public:
  Mixer(int64_t batch, int64_t channels, std::array<Terms, 3> terms, std::array<int64_t, 3> from)
      : batch_(batch), channels_(channels), terms_(std::move(terms)), from_(from) {}

  void Run(const float* from, float* to) const {
    const auto extent = [this](size_t a) { return static_cast<int64_t>(terms_[a].size()); };
    const int64_t pixels = extent(0) * extent(1) * extent(2);
#pragma omp parallel for schedule(static) if (batch_ * pixels * channels_ > kParallelElements)
    for (int64_t p = 0; p < batch_ * pixels; ++p) {
      float* pixel = to + p * channels_;
      std::fill_n(pixel, channels_, 0.0f);
      const float* sample = from + p / pixels * from_[0] * from_[1] * from_[2] * channels_;
      for (const Term& a : terms_[0][static_cast<size_t>(p / extent(2) / extent(1) % extent(0))])
        for (const Term& b : terms_[1][static_cast<size_t>(p / extent(2) % extent(1))])
          for (const Term& c : terms_[2][static_cast<size_t>(p % extent(2))])
            AddScaled(sample + ((a.at * from_[1] + b.at) * from_[2] + c.at) * channels_,
                      a.weight * b.weight * c.weight, channels_, pixel);
    }
  }

 private:
  int64_t batch_, channels_;
  std::array<Terms, 3> terms_;
  std::array<int64_t, 3> from_;
};

std::unique_ptr<Kernel> Make(const ResizeShape& s, bool backward) {
  std::array<Terms, 3> terms;
  std::array<int64_t, 3> from;
  for (size_t a = 0; a < 3; ++a) {
    terms[a] = backward ? BackwardTerms(s.axes[a]) : ForwardTerms(s.axes[a]);
    from[a] = backward ? s.axes[a].out() : s.axes[a].in;
  }
  return MakeKernel([mixer = Mixer(s.batch, s.channels, terms, from)](const KernelArgs& args) -> std::string {
    mixer.Run(args.inputs[0].as<float>(), args.outputs[0].as<float>());
    return "";
  });
}

std::unique_ptr<Kernel> Resize(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  return shape ? Make(*shape, false) : nullptr;
}

std::unique_ptr<Kernel> ResizeGrad(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (shape && site.outputs[0].elements > 0 && site.inputs[0].elements == 0)
    return Refuse(why, "an empty tensor");
  return shape ? Make(*shape, true) : nullptr;
}

}  // namespace

void RegisterCpuResize(KernelRegistry& registry) {
  registry.Add("Resize", {"cpu.resize", Resize});
  registry.Add("ResizeGrad", {"cpu.resize_grad", ResizeGrad});
}

}  // namespace act
