// A kernel of ours: a function of a header of kernels/cuda/source, which the compiler makes for its
// template's arguments.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/cuda/context.h"

namespace act::cuda {

// The kernel `name` with a struct p of type `parameters`, and statements that use the header
// source/`header`.h. `resident_blocks`: on a multiprocessor, at most, for a kernel that needs more registers than
// a full one leaves; 0 if it does not.
inline KernelSource SourceWith(const std::string& name, int threads, const std::string& parameters,
                               const std::string& header, const std::string& statements,
                               int resident_blocks = 0) {
  const std::string limit = resident_blocks > 0 ? ", " + std::to_string(resident_blocks) : "";
  return {name, "#include \"kernels/cuda/source/device.h\"\n#include \"kernels/cuda/source/" + header +
                    ".h\"\n" + (resident_blocks > 0 ? "ACT_RESIDENT_KERNEL(" : "ACT_KERNEL(") + name + ", " +
                    std::to_string(threads) + limit + ", act::cuda::" + parameters + ", p) {\n" + statements +
                    "}\n"};
}

// Parameters: the struct that the kernel takes.
template <class Parameters>
class OwnKernel {
 public:
  static constexpr int kThreads = 256;

  // Calls `function` ("MaxPool<4, uint8_t>") of the header. Blocks have `threads` threads.
  OwnKernel(const CudaContext& context, const std::string& name, const std::string& parameters,
            const std::string& header, const std::string& function, int threads = kThreads)
      : OwnKernel(context,
                  SourceWith(name, threads, parameters, header, "  act::cuda::" + function + "(p);\n"),
                  threads) {}
  // shared_bytes: of a block's dynamic shared memory.
  OwnKernel(const CudaContext& context, const KernelSource& source, int threads = kThreads,
            int64_t shared_bytes = 0)
      : context_(&context),
        kernel_(context.cache.Request(source)),
        threads_(threads),
        shared_bytes_(shared_bytes) {}

  // No blocks: nothing to do.
  Status Launch(int64_t blocks, const Parameters& p) const {
    return blocks > 0 ? cuda::Launch(*context_, *kernel_, blocks, threads_, p, shared_bytes_) : "";
  }
  // A thread for each item.
  Status LaunchItems(int64_t items, const Parameters& p) const {
    return Launch((items + threads_ - 1) / threads_, p);
  }

 private:
  const CudaContext* context_;
  const CompiledKernel* kernel_;
  int threads_;
  int64_t shared_bytes_ = 0;
};

// "<float, 4>", after a template's name. An argument is a type's name or a number.
template <class... Arguments>
std::string TemplateArguments(const Arguments&... arguments) {
  const auto text = [](const auto& argument) -> std::string {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(argument)>>)
      return std::to_string(argument);
    else
      return argument;
  };
  std::string list;
  ((list += (list.empty() ? "<" : ", ") + text(arguments)), ...);
  return list + ">";
}

}  // namespace act::cuda
