// Random numbers of dropout and codes do not depend on the tiles in which loops run.
#include <cmath>

#include "compiler/ops/graph_builder.h"
#include "passes/planning/assign_storage.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/sample_loops.h"
#include "tests/compiler/compiled_step.h"

namespace act {
namespace {

using testing_step::Gradients;
using testing_step::Take;

constexpr int64_t kBatch = 19;  // two tiles of 8 samples and one of 3

// Numbers x [..] that one loop drops, and stores in codes of several kinds, which a second loop decodes.
struct RandomLoops {
  explicit RandomLoops(const Dims& dims) : samples{DType::kFloat32, dims} {
    GraphBuilder builder(graph);
    Node encode, decode;
    encode.op = decode.op = "Fused";
    encode.name = "encode";
    decode.name = "decode";
    encode.inputs = {builder.Input("x", samples, ValueKind::kInput)};
    encode.program.space = decode.program.space = dims;
    encode.program.inputs.resize(1);
    encode.program.instrs = {{Opcode::kDropout, 0, -1, -1, .25f, 5}};
    Store(encode, 1);
    const Codec codecs[] = {Codec::Uniform(2, 64, Rounding::kDither), Codec::Uniform(3, 256), Codec::Mask(),
                            Codec::Sign(3, 2, 256), Codec::Uniform(3, 128, Rounding::kDither).OfLevels(5)};
    for (const Codec& codec : codecs) {
      const auto stream = static_cast<int32_t>(6 + decode.inputs.size());
      encode.program.outputs.push_back({OutputKind::kEncode, 0, codec, stream});
      decode.inputs.push_back(Add(*CodeType(codec, dims)));
      encode.outputs.push_back(decode.inputs.back());
      decode.program.inputs.push_back({codec, stream, codec.kind == CodecKind::kSign});
      Store(decode, static_cast<int32_t>(decode.inputs.size()) - 1);
    }
    graph.nodes = {encode, decode};
    graph.outputs = {encode.outputs[0]};
    graph.outputs.insert(graph.outputs.end(), decode.outputs.begin(), decode.outputs.end());
  }
  ValueId Add(const TensorType& type) {
    Value value;
    value.type = type;
    graph.values.push_back(value);
    return static_cast<ValueId>(graph.values.size()) - 1;
  }
  void Store(Node& node, int32_t reg) {
    node.program.outputs.push_back({OutputKind::kStore, reg, {}, 0});
    node.outputs.push_back(Add(samples));
  }

  // What the loops make of a batch, whole or in tiles.
  Gradients Run(const KernelRegistry& kernels, int64_t batch, const std::vector<SampleLoop>& loops) const {
    Plan plan;
    plan.optimizer = "none";
    plan.train.graph = graph;
    plan.train.graph.loops = loops;
    AssignStorages(plan.train);
    EXPECT_EQ(testing_step::Text(CheckStepGraph(plan.train)), "");
    std::vector<float> numbers(static_cast<size_t>(samples.Elements().At(batch)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
    testing_step::StepOptions options;
    options.batch = batch;
    return Take(testing_step::RunStep(plan, kernels, {{"x", testing_step::BytesOf(numbers)}}, options));
  }

  Graph graph;
  TensorType samples;
};

// A dropout's mask and a code's rounding are drawn by the sample's index in the whole batch.
TEST(TileRandom, NumbersAreThoseOfTheSample) {
  const RandomLoops random({Dim::Batch(), 300});
  for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()})
    EXPECT_EQ(random.Run(*kernels, kBatch, {{0, 1, 16, 4}, {1, 2, 3, 1}}), random.Run(*kernels, kBatch, {}));
}

// A long sample's codes begin anew with each token. Tiles of 700 and 900 of its 2,049 tokens begin in one sample and
// end in the next, and the last one is shorter. Tokens of 520 elements end within a group.
TEST(TileRandom, NumbersOfALongSampleAreThoseOfTheToken) {
  const std::vector<SampleLoop> loops = {{0, 1, kMostTiles, 700, 2049}, {1, 2, kMostTiles, 900, 2049}};
  const Dims flat{Dim(0, 2049), 520};
  for (const Dims& dims : {Dims{Dim::Batch(), 2049, 520}, Dims{Dim::Batch(), 2049, 2, 260}, flat})
    for (const int64_t batch : {1, 3}) {
      SCOPED_TRACE(ToString(dims) + " batch " + std::to_string(batch));
      const RandomLoops random(dims);
      const Gradients whole = random.Run(testing_step::CpuKernels(), batch, {});
      EXPECT_EQ(random.Run(testing_step::CpuKernels(), batch, loops), whole);
      EXPECT_EQ(RandomLoops(flat).Run(testing_step::CpuKernels(), batch, {}), whole);
    }
  // The reference is slow.
  const RandomLoops random({Dim::Batch(), 2049, 520});
  EXPECT_EQ(random.Run(testing_step::ReferenceKernels(), 2, loops),
            random.Run(testing_step::CpuKernels(), 2, {}));
}

}  // namespace
}  // namespace act
