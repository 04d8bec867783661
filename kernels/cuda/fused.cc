// Fused loops: a kernel of their own for each program, written by fused_text.h.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cuda/fused_plan.h"
#include "kernels/cuda/fused_text.h"
#include "kernels/cuda/registry.h"
#include "kernels/site/dereference.h"

namespace act::cuda {
namespace {

constexpr int kSumThreads = 256;

// A struct of the device, field by field.
class ParameterBytes {
 public:
  template <class T>
  void Add(const T& value) {
    bytes_.resize((bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
  }
  // Its size is a multiple of 8, the alignment of its first field.
  const std::vector<std::byte>& Finish() {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
};

class FusedKernel final : public Kernel {
 public:
  FusedKernel(CudaLoop loop, const KernelSite& site, const CudaContext& context)
      : context_(context),
        loop_(std::move(loop)),
        fields_(ParameterFields(loop_)),
        whole_batch_(site.whole_batch) {
    const KernelSource source = FusedSource(loop_, site);
    name_ = source.name;
    kernel_ = context.cache.Request(source);
    if (!loop_.sums.empty())
      sum_kernel_ = context.cache.Request({"fused_sum", "#include \"kernels/cuda/source/fused_sum.h\"\n"});
    const int64_t most = int64_t{context.driver().card().multiprocessors} * loop_.ResidentBlocks();
    blocks_ = loop_.sums.empty() ? std::min(CeilDiv(loop_.Units(), loop_.teams), std::max<int64_t>(most, 1))
                                 : loop_.sum_blocks;
  }

  std::string Run(const KernelArgs& args) override {
    if (blocks_ > 0) {
      const std::vector<std::byte> parameters = Parameters(args);
      const Status status =
          context_.driver().Launch(context_.stream, kernel_->function, {static_cast<uint32_t>(blocks_), 1, 1},
                                   {static_cast<uint32_t>(Threads()), 1, 1}, 0, parameters.data(),
                                   static_cast<int64_t>(parameters.size()));
      if (!status.empty()) return name_ + ": " + status;
    }
    for (const LoopSum& sum : loop_.sums) {
      if (sum.columns == 0) continue;
      const FinishSum finish = {Partial(args, sum), args.outputs[static_cast<size_t>(sum.output)].as<float>(),
                                sum.columns, sum.parts};
      const Status status =
          Launch(context_, *sum_kernel_, CeilDiv(sum.columns, kSumThreads), kSumThreads, finish);
      if (!status.empty()) return name_ + ": sums: " + status;
    }
    return "";
  }

  int64_t WorkspaceBytes() const override { return loop_.workspace_bytes; }

  std::string Describe() const override {
    return name_ + ", " + std::to_string(blocks_) + " blocks of " + std::to_string(Threads()) + " threads";
  }

 private:
  int Threads() const { return 32 * loop_.warps; }

  static double* Partial(const KernelArgs& args, const LoopSum& sum) {
    return (args.workspace.data + sum.workspace).as<double>();
  }

  std::vector<std::byte> Parameters(const KernelArgs& args) const {
    ParameterBytes bytes;
    for (const ParameterField& field : fields_) Add(field, args, bytes);
    return bytes.Finish();
  }

  void Add(const ParameterField& field, const KernelArgs& args, ParameterBytes& bytes) const {
    using Kind = ParameterField::Kind;
    const auto i = static_cast<size_t>(field.number);
    switch (field.kind) {
      case Kind::kStep:
        return bytes.Add(context_.step_block.as<void>());
      case Kind::kInput:
        return bytes.Add(args.inputs[i].as<void>());
      case Kind::kOutput:
        return bytes.Add(args.outputs[i].as<void>());
      case Kind::kPartial: {
        const auto of_output = [&](const LoopSum& sum) { return sum.output == field.number; };
        return bytes.Add(Partial(args, *std::find_if(loop_.sums.begin(), loop_.sums.end(), of_output)));
      }
      case Kind::kWalk: {
        LoopWalk walk = loop_.walk;
        walk.first_sample = args.first_sample * loop_.shape.samples_each;
        return bytes.Add(walk);
      }
      case Kind::kStream:
        return bytes.Add(loop_.streams[i].stream);
      case Kind::kConstant:
        return bytes.Add(ConstantAt(loop_.program->constants[i], whole_batch_));
    }
  }

  const CudaContext& context_;
  const CudaLoop loop_;
  const std::vector<ParameterField> fields_;
  const int64_t whole_batch_;
  std::string name_;
  const CompiledKernel *kernel_ = nullptr, *sum_kernel_ = nullptr;
  int64_t blocks_ = 0;
};

std::unique_ptr<Kernel> CreateFused(const CudaContext& context, const KernelSite& site, std::string* why) {
  std::optional<CudaLoop> loop = MakeCudaLoop(site, why);
  if (!loop) return nullptr;
  return std::make_unique<FusedKernel>(std::move(*loop), site, context);
}

}  // namespace

void RegisterCudaFused(KernelRegistry& registry, const CudaContext& context) {
  registry.Add("Fused", {"cuda.fused", [&context](const KernelSite& site, std::string* why) {
                           return CreateFused(context, site, why);
                         }});
}

}  // namespace act::cuda
