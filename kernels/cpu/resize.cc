#include <algorithm>

#include "kernels/cpu/special.h"
#include "kernels/cpu/vector_clones.h"
#include "kernels/site/dereference.h"
#include "kernels/site/lambda_kernel.h"
#include "kernels/site/resize_shape.h"

namespace act {
namespace {

using Terms = std::span<const WeightedRows::Term>;

// to[c] = sum over both axes' terms of their weights * from[outer, inner, c]; from: [.., width,
// channels].
ACT_VECTOR_CLONES void MixPixel(const float* from, const Terms& outer, const Terms& inner, int64_t width,
                                int64_t channels, float* to) {
  bool first = true;
  for (const WeightedRows::Term& a : outer)
    for (const WeightedRows::Term& b : inner) {
      const float* x = from + (a.at * width + b.at) * channels;
      const float weight = a.weight * b.weight;
      if (first)
        for (int64_t c = 0; c < channels; ++c) to[c] = weight * x[c];
      else
        for (int64_t c = 0; c < channels; ++c) to[c] += weight * x[c];
      first = false;
    }
  if (first) std::fill_n(to, channels, 0.0f);
}

// Each pixel is made by one thread, forward and backward, so the sums do not depend on the number of
// threads.
class Mixer {
 public:
  Mixer(const ResizeShape& s, bool backward) : batch_(s.batch), channels_(s.channels) {
    PlaneRows rows = PlaneRowsOf(s, backward);
    outer_ = std::move(rows.outer);
    inner_ = std::move(rows.inner);
  }

  void Run(const float* from, float* to) const {
    const int64_t pixels = outer_.rows() * inner_.rows(), size = outer_.columns * inner_.columns * channels_;
#pragma omp parallel for schedule(static) if (batch_ * pixels * channels_ > kParallelElements)
    for (int64_t p = 0; p < batch_ * pixels; ++p) {
      const int64_t line = p / inner_.rows();
      MixPixel(from + p / pixels * size, outer_.Row(line % outer_.rows()),
               inner_.Row(p - line * inner_.rows()), inner_.columns, channels_, to + p * channels_);
    }
  }

 private:
  int64_t batch_, channels_;
  WeightedRows outer_, inner_;
};

std::unique_ptr<Kernel> Make(const ResizeShape& s, bool backward) {
  return MakeKernel([mixer = Mixer(s, backward)](const KernelArgs& args) -> std::string {
    mixer.Run(args.inputs[0].as<float>(), args.outputs[0].as<float>());
    return "";
  });
}

std::unique_ptr<Kernel> Resize(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.inputs[0], site.outputs[0], why);
  if (!shape) return nullptr;
  return Make(*shape, false);
}

std::unique_ptr<Kernel> ResizeGrad(const KernelSite& site, std::string* why) {
  const auto shape = ResizeShapeOf(site.node->attrs, site.outputs[0], site.inputs[0], why);
  if (!shape) return nullptr;
  if (site.outputs[0].elements > 0 && site.inputs[0].elements == 0) return Refuse(why, "an empty tensor");
  return Make(*shape, true);
}

}  // namespace

void RegisterCpuResize(KernelRegistry& registry) {
  registry.Add("Resize", {"cpu.resize", Resize});
  registry.Add("ResizeGrad", {"cpu.resize_grad", ResizeGrad});
}

}  // namespace act
