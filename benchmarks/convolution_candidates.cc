// Times every kernel that takes a convolution of ResNet-50, on float32 and on bfloat16 activations, by
// turns in one process, since the machine's speed changes with what else runs on it.
//   convolution_candidates [--batch=16] [--rounds=9] [--op=Conv] [--shape=TEXT] [--bound=BYTES]
// Prints the median time of each convolution in milliseconds, and the median processor time of all
// threads, then sums over the shapes that a kernel takes, each counted as often as the network has it.
// Processor time says more on a busy machine. It needs OMP_WAIT_POLICY=passive, or threads that wait
// count too. --shape leaves out shapes whose name lacks TEXT.
// --bound gives kernels this workspace in place of the plan's.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/registry.h"
#include "runtime/plan/workspace.h"
#include "tests/network_shapes.h"

namespace act {
namespace {

struct Options {
  int64_t batch = 16, bound = 0;
  int rounds = 9;
  std::string op, shape;
};

// Milliseconds.
struct Times {
  double wall = 0, processor = 0;
};

// A node with operands of one type, and its memory.
class Convolution {
 public:
  Convolution(const ConvolutionShape& shape, const std::string& op, DType type, const Options& options) {
    node_.op = op;
    node_.attrs = shape.Attrs();
    const bool weight = op == "ConvGradWeight";
    const ConvolutionNode n = NodeOf(shape, op, options.batch);
    Add(n.inputs[0], type);
    Add(n.inputs[1], weight ? type : DType::kFloat32);
    Add(n.output, weight ? DType::kFloat32 : type);
    node_.inputs = {0, 1};
    node_.outputs = {2};
    bound_ = options.bound ? options.bound : WorkspaceBound(node_, graph_, CpuTarget(), 0).At(options.batch);
    workspace_.resize(static_cast<size_t>(bound_) / 64 + 2);
  }

  const Node& node() const { return node_; }
  KernelSite Site(int64_t batch) const {
    return {&node_, {views_[0], views_[1]}, {views_[2]}, batch, bound_, omp_get_max_threads()};
  }
  Times Run(Kernel& kernel) {
    const KernelArgs args{std::span<const TensorView>(views_).first(2),
                          std::span<const TensorView>(views_).last(1),
                          {DevicePointer(workspace_.data()), bound_},
                          nullptr};
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t processor_start = std::clock();
    if (const std::string error = kernel.Run(args); !error.empty()) {
      std::fprintf(stderr, "error: %s\n", error.c_str());
      std::exit(1);
    }
    return {std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(),
            1000.0 * static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC};
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  void Add(const std::vector<int64_t>& dims, DType type) {
    graph_.values.push_back({"", {type, Dims(dims.begin(), dims.end())}, ValueKind::kActivation, {}});
    const int64_t elements = ElementCount(dims), bytes = elements * ByteSize(type);
    storage_.emplace_back(static_cast<size_t>(bytes) / 64 + 1);
    // 0.5 and numbers near it, in either type
    if (type == DType::kFloat32)
      std::fill_n(reinterpret_cast<float*>(storage_.back().data()), elements, 0.5f);
    else
      std::fill_n(reinterpret_cast<uint16_t*>(storage_.back().data()), elements, uint16_t{0x3F00});
    views_.push_back({DevicePointer(storage_.back().data()), type, dims, elements, bytes});
  }

  Graph graph_;
  Node node_;
  int64_t bound_ = 0;
  std::vector<std::vector<Line>> storage_;
  std::vector<TensorView> views_;
  std::vector<Line> workspace_;
};

struct Candidate {
  std::string name;
  Convolution* of;
  std::unique_ptr<Kernel> kernel;
  std::vector<Times> times = {};
};

Times Median(const std::vector<Times>& times) {
  const auto median = [&times](double Times::*member) {
    std::vector<double> values;
    values.reserve(times.size());
    for (const Times& t : times) values.push_back(t.*member);
    std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
    return values[values.size() / 2];
  };
  return {median(&Times::wall), median(&Times::processor)};
}

// All kernels but the reference.
std::vector<Candidate> CandidatesOf(const KernelRegistry& registry, Convolution& f32, Convolution& bf16,
                                    int64_t batch) {
  std::vector<Candidate> all;
  for (Convolution* of : {&f32, &bf16})
    for (const KernelEntry& entry : registry.For(of->node().op)) {
      if (entry.name.rfind("reference", 0) == 0) continue;
      const std::string name = (of == &f32 ? "f32 " : "bf16 ") + entry.name;
      std::string why;
      auto kernel = entry.create(of->Site(batch), &why);
      if (kernel)
        all.push_back({name, of, std::move(kernel)});
      else
        std::printf("    %s refuses: %s\n", name.c_str(), why.c_str());
    }
  return all;
}

void Run(const Options& options) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  std::map<std::string, std::map<std::string, Times>> totals;
  for (const std::string op : {"Conv", "ConvGradInput", "ConvGradWeight"})
    for (const auto& [shape, count] : ResNet({3, 4, 6, 3})) {
      if (op == "ConvGradInput" && shape.in_channels == 3) continue;
      if (!options.op.empty() && options.op != op) continue;
      const std::string name = "c" + std::to_string(shape.in_channels) + "/m" +
                               std::to_string(shape.out_channels) + "/s" + std::to_string(shape.size) + "/k" +
                               std::to_string(shape.kernel) + "/stride" + std::to_string(shape.stride);
      if (name.find(options.shape) == std::string::npos) continue;
      std::printf("%s %s, %d times\n", op.c_str(), name.c_str(), count);
      Convolution f32(shape, op, DType::kFloat32, options), bf16(shape, op, DType::kBFloat16, options);
      auto candidates = CandidatesOf(registry, f32, bf16, options.batch);
      for (Candidate& c : candidates) c.of->Run(*c.kernel);
      for (int round = 0; round < options.rounds; ++round)
        for (Candidate& c : candidates) c.times.push_back(c.of->Run(*c.kernel));
      for (const Candidate& c : candidates) {
        const Times time = Median(c.times);
        Times& total = totals[op][c.name];
        total.wall += time.wall * count;
        total.processor += time.processor * count;
        std::printf("    %-34s %8.3f %8.3f  %s\n", c.name.c_str(), time.wall, time.processor,
                    c.kernel->Describe().c_str());
      }
      std::fflush(stdout);
    }
  for (const auto& [op, sums] : totals)
    for (const auto& [name, time] : sums)
      std::printf("%-16s %-34s %9.1f %9.1f\n", op.c_str(), name.c_str(), time.wall, time.processor);
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) {
  act::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t equals = arg.find('=');
    const std::string flag = arg.substr(0, equals), value = equals < arg.size() ? arg.substr(equals + 1) : "";
    if (flag == "--batch") {
      options.batch = std::atoll(value.c_str());
    } else if (flag == "--bound") {
      options.bound = std::atoll(value.c_str());
    } else if (flag == "--rounds") {
      options.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--op") {
      options.op = value;
    } else if (flag == "--shape") {
      options.shape = value;
    } else {
      std::fprintf(stderr, "error: unknown flag %s\n", arg.c_str());
      return 2;
    }
  }
  act::Run(options);
  return 0;
}
