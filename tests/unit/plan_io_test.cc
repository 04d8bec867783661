#include "runtime/plan/plan_io.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/plan/plan_file.h"
#include "tests/unit/small_plan.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

using testing::Contents;
using testing::Overwrite;
using testing::SmallPlan;
using testing::TemporaryFolder;

std::string_view View(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes)};
}

void ExpectSameStep(const StepGraph& a, const StepGraph& b) {
  EXPECT_EQ(a.storage_of, b.storage_of);
  EXPECT_EQ(a.storages, b.storages);
  EXPECT_EQ(a.graph.inputs, b.graph.inputs);
  EXPECT_EQ(a.graph.outputs, b.graph.outputs);
  EXPECT_EQ(a.graph.loops, b.graph.loops);
  ASSERT_EQ(a.graph.values.size(), b.graph.values.size());
  for (size_t i = 0; i < a.graph.values.size(); ++i) {
    const Value &x = a.graph.values[i], &y = b.graph.values[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type) << x.name;
    EXPECT_EQ(x.kind, y.kind) << x.name;
    EXPECT_EQ(x.data.data == nullptr, y.data.data == nullptr) << x.name;
    EXPECT_EQ(View(x.data), View(y.data)) << x.name;
    ASSERT_EQ(x.coded == nullptr, y.coded == nullptr) << x.name;
    if (x.coded) {
      EXPECT_EQ(*x.coded, *y.coded) << x.name;
    }
  }
  ASSERT_EQ(a.graph.nodes.size(), b.graph.nodes.size());
  for (size_t i = 0; i < a.graph.nodes.size(); ++i) {
    const Node &x = a.graph.nodes[i], &y = b.graph.nodes[i];
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.inputs, y.inputs) << x.name;
    EXPECT_EQ(x.outputs, y.outputs) << x.name;
    EXPECT_EQ(x.attrs, y.attrs) << x.name;
    EXPECT_EQ(x.phase, y.phase) << x.name;
    EXPECT_EQ(x.mutates, y.mutates) << x.name;
    EXPECT_EQ(x.program, y.program) << x.name;
    EXPECT_EQ(x.workspace_bytes, y.workspace_bytes) << x.name;
  }
}

Prepared SmallPrepared() {
  Prepared p;
  p.card = "A card", p.compiler = "compiler 1", p.library = "library 2", p.batch = 8;
  p.kernels = {{"00ab", "scale", testing::Ramp(25)}, {"00ac", "fused", testing::Ramp(16)}};
  p.engines = {{"convolution a", "engine 3", 131, testing::Ramp(3)}, {"convolution b", "no engine", 0, {}}};
  return p;
}

void ExpectSame(const Prepared& a, const Prepared& b) {
  EXPECT_EQ(a.card, b.card);
  EXPECT_EQ(a.compiler, b.compiler);
  EXPECT_EQ(a.library, b.library);
  EXPECT_EQ(a.batch, b.batch);
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (size_t i = 0; i < a.kernels.size(); ++i) {
    EXPECT_EQ(a.kernels[i].key, b.kernels[i].key);
    EXPECT_EQ(a.kernels[i].name, b.kernels[i].name);
    EXPECT_EQ(View(a.kernels[i].image), View(b.kernels[i].image));
  }
  ASSERT_EQ(a.engines.size(), b.engines.size());
  for (size_t i = 0; i < a.engines.size(); ++i) {
    EXPECT_EQ(a.engines[i].problem, b.engines[i].problem);
    EXPECT_EQ(a.engines[i].engine, b.engines[i].engine);
    EXPECT_EQ(a.engines[i].workspace_bytes, b.engines[i].workspace_bytes);
    EXPECT_EQ(View(a.engines[i].plan), View(b.engines[i].plan));
  }
}

// A plan that brings what `change` leaves of SmallPrepared().
template <class Change>
Plan PreparedPlan(Change change) {
  Plan plan = SmallPlan();
  Prepared prepared = SmallPrepared();
  change(prepared);
  plan.prepared = std::make_shared<const Prepared>(std::move(prepared));
  return plan;
}
Plan PreparedPlan() {
  return PreparedPlan([](Prepared&) {});
}

// The message of reading a file with these contents.
std::string ReadError(const std::string& contents) {
  TemporaryFolder folder;
  Overwrite(folder / "f", contents);
  llvm::Expected<Plan> plan = ReadPlan(folder / "f");
  if (plan) return "";
  const std::string message = llvm::toString(plan.takeError());
  const std::string place = (folder / "f") + ": ";
  EXPECT_EQ(message.substr(0, place.size()), place);
  return message.substr(place.size());
}

std::string Written(const Plan& plan) {
  TemporaryFolder folder;
  llvm::cantFail(WritePlan(plan, folder / "p"));
  return Contents(folder / "p");
}

// With the matching checksum, as a hostile writer would compute it.
std::string Resealed(std::string file) {
  const size_t content = file.size() - plan_file::kChecksumBytes;
  const uint64_t checksum = plan_file::Checksum({reinterpret_cast<const std::byte*>(file.data()), content});
  std::memcpy(file.data() + content, &checksum, sizeof checksum);
  return file;
}

TEST(PlanIo, ReadsBackAllThatWasWritten) {
  TemporaryFolder folder;
  Plan plan = SmallPlan();
  testing::AddFrozen(plan);
  Node& node = plan.train.graph.nodes[0];
  node.attrs.Set("int", int64_t{-3});
  node.attrs.Set("float", 0.1);
  node.attrs.Set("text", std::string("a b"));
  node.attrs.Set("empty text", std::string());
  node.attrs.Set("ints", std::vector<int64_t>{1, INT64_MIN});
  node.attrs.Set("no ints", std::vector<int64_t>{});
  node.attrs.Set("floats", std::vector<double>{1e-300, 2.5});
  Program& program = plan.train.graph.nodes[1].program;
  program.constants = {{0.5f, Dim(0, 3, 1)}};
  program.instrs = {{Opcode::kDropout, 0, -1, -1, 0.25f, 9}};
  plan.train.graph.loops = {{1, 2, 16, 8}};
  plan.clip_norm = 0.1;
  plan.accumulate = 12;
  llvm::cantFail(WritePlan(plan, folder / "p"));
  const Plan read = llvm::cantFail(ReadPlan(folder / "p"));
  EXPECT_EQ(read.model_name, "small.onnx");
  EXPECT_EQ(read.level, "L2");
  EXPECT_EQ(read.optimizer, "sgd");
  EXPECT_EQ(read.clip_norm, 0.1);
  EXPECT_EQ(read.accumulate, 12);
  EXPECT_EQ(read.seed, 11u);
  EXPECT_EQ(read.default_batch, 2);
  EXPECT_FALSE(read.fixed_batch);
  EXPECT_EQ(read.workspace_limit, 4096);
  EXPECT_EQ(View(read.onnx_model), "onnx");
  ExpectSameStep(plan.train, read.train);
  ExpectSameStep(plan.eval, read.eval);
  ASSERT_EQ(read.edges.size(), 1u);
  const SavedEdge &edge = read.edges[0], &expected = plan.edges[0];
  EXPECT_EQ(edge.name, expected.name);
  EXPECT_EQ(edge.stored, expected.stored);
  EXPECT_EQ(edge.consumers, expected.consumers);
  EXPECT_EQ(edge.form, expected.form);
  EXPECT_EQ(edge.reason, expected.reason);
  EXPECT_EQ(edge.bits, expected.bits);
  EXPECT_EQ(edge.variance, expected.variance);
  EXPECT_EQ(edge.least_bits, expected.least_bits);
  EXPECT_EQ(edge.bytes, expected.bytes);
  EXPECT_EQ(edge.bytes_uncompressed, expected.bytes_uncompressed);
}

TEST(PlanIo, TheSamePlanMakesTheSameBytes) { EXPECT_EQ(Written(SmallPlan()), Written(SmallPlan())); }

TEST(PlanIo, WeightsAreAlignedSharedAndOutliveThePlan) {
  TemporaryFolder folder;
  llvm::cantFail(WritePlan(SmallPlan(), folder / "p"));
  HostTensor weights;
  {
    const Plan read = llvm::cantFail(ReadPlan(folder / "p"));
    weights = read.train.graph.values[2].data;
    EXPECT_EQ(weights.data, read.eval.graph.values[3].data.data);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.data) % 64, 0u);
  EXPECT_EQ(View(weights), View(testing::Ramp(64 * 4)));
}

TEST(PlanIo, APlanWithoutWeightsIsLegal) {
  TemporaryFolder folder;
  Plan plan = SmallPlan();
  for (StepGraph* step : {&plan.train, &plan.eval})
    for (Value& value : step->graph.values) value.data = {};
  plan.onnx_model = {};
  llvm::cantFail(WritePlan(plan, folder / "p"));
  const Plan read = llvm::cantFail(ReadPlan(folder / "p"));
  EXPECT_EQ(read.train.graph.values[2].data.data, nullptr);
  EXPECT_EQ(read.onnx_model.data, nullptr);
}

TEST(PlanIo, ReadsBackWhatIsPreparedForACard) {
  TemporaryFolder folder;
  llvm::cantFail(WritePlan(PreparedPlan(), folder / "p"));
  const Plan read = llvm::cantFail(ReadPlan(folder / "p"));
  ASSERT_TRUE(read.prepared);
  ExpectSame(SmallPrepared(), *read.prepared);
  EXPECT_EQ(read.prepared->Bytes(), 4 * (25 + 16 + 3));
  EXPECT_EQ(read.prepared->FindKernel("00ac")->name, "fused");
  EXPECT_EQ(read.prepared->FindKernel("00aa"), nullptr);
  EXPECT_EQ(read.prepared->FindKernel("00b"), nullptr);
  EXPECT_EQ(read.prepared->FindEngine("convolution a")->engine, "engine 3");
  EXPECT_EQ(read.prepared->FindEngine("convolution"), nullptr);
  llvm::cantFail(WritePlan(SmallPlan(), folder / "p"));
  EXPECT_FALSE(llvm::cantFail(ReadPlan(folder / "p")).prepared);
}

TEST(PlanIo, WhatIsPreparedForACardIsChecked) {
  const auto error = [](auto change) {
    TemporaryFolder folder;
    const std::string path = folder / "p";
    const std::string text = llvm::toString(WritePlan(PreparedPlan(change), path));
    const std::string place = path + ": what is prepared for a card: ";
    EXPECT_EQ(text.substr(0, place.size()), place);
    return text.substr(std::min(place.size(), text.size()));
  };
  const std::string hint = "\nhint: compile the model again";
  EXPECT_EQ(error([](Prepared& p) { p.card.clear(); }),
            "does not say for which card, compiler and library" + hint);
  EXPECT_EQ(error([](Prepared& p) { p.batch = 0; }), "is for a batch of 0" + hint);
  EXPECT_EQ(error([](Prepared& p) { p.kernels[1].key = p.kernels[0].key; }),
            "has kernels that are not in order" + hint);
  EXPECT_EQ(error([](Prepared& p) { p.kernels[0].key.clear(); }), "has kernels that are not in order" + hint);
  EXPECT_EQ(error([](Prepared& p) { std::swap(p.engines[0], p.engines[1]); }),
            "has engines that are not in order" + hint);
  EXPECT_EQ(error([](Prepared& p) { p.kernels[1].image = {}; }), "has no code of kernel 'fused'" + hint);
  EXPECT_EQ(error([](Prepared& p) { p.engines[0].workspace_bytes = -1; }),
            "has an engine without its sizes: 'convolution a'" + hint);
}

TEST(PlanIo, EveryFlippedBitIsFound) {
  const std::string good = Written(SmallPlan());
  TemporaryFolder folder;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    Overwrite(folder / "p", bad);
    llvm::Expected<Plan> plan = ReadPlan(folder / "p");
    ASSERT_FALSE(plan) << "byte " << i << " of " << good.size();
    llvm::consumeError(plan.takeError());
  }
}

TEST(PlanIo, EveryTruncationIsFound) {
  const std::string good = Written(SmallPlan());
  for (size_t size = 0; size < good.size(); size += size < 200 ? 1 : 97)
    ASSERT_NE(ReadError(good.substr(0, size)), "") << size;
  EXPECT_EQ(ReadError(good.substr(0, 90)),
            "truncated: 90 of " + std::to_string(good.size()) +
                " bytes are there\nhint: copy it again, or compile the model again");
  EXPECT_NE(ReadError(good + "x").find("bytes after its end"), std::string::npos);
}

// The checksum does not protect against a writer that computes it, so the structure must be checked
// too. Each of these files must give a plan or an error. A sanitizer build shows anything else.
TEST(PlanIo, ResealedDamageNeverReadsOutsideTheFile) {
  const std::string good = Written(PreparedPlan());
  TemporaryFolder folder;
  int errors = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (i % 2 ? 0xff : 1 << (i / 2 % 8)));
    Overwrite(folder / "p", Resealed(bad));
    llvm::Expected<Plan> plan = ReadPlan(folder / "p");
    if (!plan) {
      llvm::consumeError(plan.takeError()), ++errors;
    } else if (plan->prepared) {
      uint64_t sum = 0;  // a byte outside of the file would be found here
      for (const PreparedKernel& kernel : plan->prepared->kernels)
        for (int64_t at = 0; at < kernel.image.bytes; ++at)
          sum += static_cast<uint8_t>(kernel.image.data[at]);
      for (const PreparedEngine& engine : plan->prepared->engines)
        for (int64_t at = 0; at < engine.plan.bytes; ++at) sum += static_cast<uint8_t>(engine.plan.data[at]);
      EXPECT_LT(sum, uint64_t{1} << 40);
    }
  }
  EXPECT_GT(errors, 100);
}

// FlatBuffers' verifier accepts a vector of 8-byte fields at any multiple of 4 bytes.
TEST(PlanIo, LoopsThatAreNotAlignedAreDamage) {
  Plan plan = SmallPlan();
  const SampleLoop loop{1, 2, 12345, 777};
  plan.train.graph.loops = {loop};
  std::string bytes = Written(plan);
  static_assert(sizeof loop == 5 * sizeof(int64_t));
  const size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(&loop), sizeof loop));
  ASSERT_NE(at, std::string::npos);
  // The vector's length is stored before the loop. If the offset to the vector grows by 4, the
  // loop's first node, 1, is read as the length.
  const size_t length = at - sizeof(uint32_t);
  int moved = 0;
  for (size_t i = 0; i < length; i += sizeof(uint32_t)) {
    uint32_t offset = 0;
    std::memcpy(&offset, bytes.data() + i, sizeof offset);
    if (i + offset != length) continue;
    offset += sizeof offset;
    std::memcpy(bytes.data() + i, &offset, sizeof offset);
    ++moved;
  }
  ASSERT_EQ(moved, 1);
  EXPECT_EQ(ReadError(Resealed(bytes)), "damaged: its FlatBuffer is not aligned");
}

TEST(PlanIo, ANodeWithoutAWorkspaceForEachTargetIsDamage) {
  Plan plan = SmallPlan();
  plan.train.graph.nodes[0].workspace_bytes = {CappedDim(Dim(12345, 678), 99999), CappedDim(54321)};
  std::string bytes = Written(plan);
  const int64_t first[] = {12345, 678, 0, 99999};
  const size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(first), sizeof first));
  ASSERT_NE(at, std::string::npos);
  // The vector's length is stored before it.
  char& length = bytes[at - sizeof(uint32_t)];
  ASSERT_EQ(length, static_cast<char>(kTargetKinds));
  length = 1;
  EXPECT_EQ(ReadError(Resealed(bytes)), "damaged: a node has 1 of 2 workspaces");
}

TEST(PlanIo, NamesWhatAFileIsInstead) {
  EXPECT_EQ(ReadError(std::string("\x08\x07\x12\x07pytorch\x1a", 12)),
            "an ONNX model, not a plan: compile it with actc");
  EXPECT_EQ(ReadError(std::string("\x10\0\0\0\0\0\0\0{\"a\": 1}", 16)), "a safetensors file, not a plan");
  EXPECT_EQ(ReadError(""), "an empty file, not a plan");
  EXPECT_EQ(ReadError("#!/bin/sh\n"), "a file of another kind, not a plan");
}

TEST(PlanIo, AnotherVersionSaysSo) {
  std::string file = Written(SmallPlan());
  file[8] = kPlanVersion + 1;
  EXPECT_EQ(ReadError(Resealed(file)), "a plan of version " + std::to_string(kPlanVersion + 1) +
                                           ", this program reads version " + std::to_string(kPlanVersion) +
                                           ": compile the model again");
}

// A program of the same version may have codecs that this one lacks.
TEST(PlanIo, ACodecThatThisProgramLacksIsNamed) {
  std::string file = Written(SmallPlan());
  int found = 0;  // the codec, and the form of an edge
  for (size_t at = file.find("uniform"); at != std::string::npos; at = file.find("uniform"), ++found)
    file.replace(at, 7, "ternary");
  EXPECT_EQ(found, 2) << "a codec is stored once";
  EXPECT_EQ(ReadError(Resealed(file)),
            "a plan with the codec 'ternary', which this program does not have\n"
            "hint: run it with the version of act that compiled it, or compile the model again");
}

TEST(PlanIo, AFailedWriteLeavesTheOldFile) {
  TemporaryFolder folder;
  llvm::cantFail(WritePlan(SmallPlan(), folder / "p"));
  const std::string before = Contents(folder / "p");
  Plan bad = SmallPlan();
  bad.train.graph.nodes[0].inputs[0] = 1000;
  EXPECT_EQ(llvm::toString(WritePlan(bad, folder / "p")),
            (folder / "p") + ": training: node 'fc' (MatMul): an input is no value");
  EXPECT_EQ(Contents(folder / "p"), before);
  EXPECT_EQ(folder.Files(), 1u);
}

}  // namespace
}  // namespace act
