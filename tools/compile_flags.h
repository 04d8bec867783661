// The flags of actc, and the request that they make.
#pragma once

#include <llvm/Support/CommandLine.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/import/import_onnx.h"
#include "compiler/policy/policy.h"
#include "passes/pipeline/pipeline.h"
#include "tools/compare.h"
#include "tools/flags.h"
#include "tools/target_flag.h"

namespace act {

struct CompileFlags {
  llvm::cl::OptionCategory compile{"Compilation"};
  llvm::cl::OptionCategory model_group{"The model"};
  llvm::cl::OptionCategory reports{"Reports",
                                   "Without -o the report alone is printed; that needs no weights."};
  llvm::cl::OptionCategory debugging{"Looking inside"};

  llvm::cl::opt<std::string> model{llvm::cl::Positional, llvm::cl::Required, llvm::cl::desc("MODEL.onnx"),
                                   llvm::cl::cat(compile)};
  llvm::cl::opt<std::string> level{
      "O",
      llvm::cl::desc(
          "How saved activations are stored (default: L0):\n"
          "L0 exactly\n"
          "L1 4 bits for inputs of convolutions and matrix products\n"
          "L2 4 bits for all\n"
          "L3 about 3 bits, and cheap values are recomputed\n"
          "L4 as L3, and expensive nodes are re-run where that lowers the peak of 64 samples or more\n"
          "L5 the least peak: as L4, some products are made twice, tiles as small as a sample\n"
          "auto whatever fits --memory-limit with the least expected variance\n"
          "Presets, for comparison: actnn-L1..L5, gact-L1..L3, division, blpa, acgc"),
      llvm::cl::value_desc("LEVEL"), llvm::cl::init("L0"), llvm::cl::cat(compile)};
  llvm::cl::opt<std::string> output{"o", llvm::cl::desc("Write the plan here"), llvm::cl::value_desc("PLAN"),
                                    llvm::cl::cat(compile)};
  llvm::cl::opt<std::string> optimizer{
      "optimizer",
      llvm::cl::desc(
          "sgd (default, with momentum), plain-sgd (no state), adam, adamw, ort-adamw, onnx-adam,\n"
          "onnx-momentum, adagrad, lamb, or none (the gradients are outputs)"),
      llvm::cl::value_desc("NAME"), llvm::cl::init("sgd"), llvm::cl::cat(compile)};
  llvm::cl::list<std::string, bool, OptionalTextParser> no_decay{
      "no-decay",
      llvm::cl::ValueOptional,
      llvm::cl::value_desc("GLOB"),
      llvm::cl::CommaSeparated,
      llvm::cl::cat(compile),
      llvm::cl::desc(
          "No weight decay for the parameters whose names match; without GLOB, for those of at most one\n"
          "axis: biases, and the scales and shifts of normalizations")};
  llvm::cl::list<std::string> lr_factor{
      "lr-factor", llvm::cl::value_desc("GLOB=X"), llvm::cl::CommaSeparated, llvm::cl::cat(compile),
      llvm::cl::desc("The parameters whose names match learn at X times the rate")};
  NumberFlag clip_norm{
      "clip-norm", llvm::cl::value_desc("X"), llvm::cl::cat(compile),
      llvm::cl::desc("Scale all gradients together down to this norm; they are kept until it is known")};
  llvm::cl::opt<std::string> optimizer_state{
      "optimizer-state",
      llvm::cl::desc(
          "f32 (default); bf16, 8bit: sgd, adam, adamw and lamb keep the state of large parameters in\n"
          "bfloat16, or in 8 bits an element. 8bit keeps that of embedding tables in bfloat16,\n"
          "8bit-all in 8 bits, too. All are rounded without bias. auto: --memory-limit may take 8bit"),
      llvm::cl::value_desc("f32|bf16|8bit|8bit-all|auto"), llvm::cl::init("f32"), llvm::cl::cat(compile)};
  llvm::cl::opt<std::string> frozen_weights{
      "frozen-weights",
      llvm::cl::desc(
          "How large weights that do not train (--freeze) lie in memory: f32 (default), bf16, 8bit, or\n"
          "4bit (4.5 with scales; 8 for tables of embeddings). The run computes with\n"
          "what is stored; files keep the weights as they are. auto: --memory-limit chooses"),
      llvm::cl::value_desc("f32|bf16|8bit|4bit|auto"), llvm::cl::init("f32"), llvm::cl::cat(compile)};
  SwitchFlag grad_norm{
      "grad-norm", llvm::cl::cat(compile),
      llvm::cl::desc(
          "Compute the norm of all gradients together, for actrun --log; --clip-norm does so, too")};
  WholeNumberFlag accumulate{
      "accumulate", llvm::cl::value_desc("K"), llvm::cl::init(1), llvm::cl::cat(compile),
      llvm::cl::desc("Micro-batches of a step, whose gradients are summed for one update (default 1)")};
  NumberFlag bits{
      "bits", llvm::cl::value_desc("1..8"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "Bits of lossy codes (default: the level's own). A fraction is an average over codes, their\n"
          "scales included; codes that matter more get more")};
  NumberFlag exact{"exact", llvm::cl::value_desc("PART"), llvm::cl::cat(compile),
                   llvm::cl::desc("At L1 to L5, store exactly what the forward pass makes last: PART (0 to "
                                  "below 1) of the bytes that\n"
                                  "codes would replace")};
  llvm::cl::opt<std::string> saved_limit{
      "saved-limit", llvm::cl::value_desc("SIZE"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "Store at most this many bytes of activations at --batch, with the least expected variance of\n"
          "the gradient; at L4 this also chooses what is re-run")};
  llvm::cl::opt<std::string> memory_limit{
      "memory-limit", llvm::cl::value_desc("SIZE"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "Choose the level, the bits of codes and what is stored exactly: the step of least expected\n"
          "variance of the gradient whose whole peak at --batch is at most SIZE. If none is, say what\n"
          "stands in the way")};
  llvm::cl::opt<std::string> host_limit{
      "host-limit", llvm::cl::value_desc("SIZE"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "With --target=cuda: --memory-limit may keep codes and masks of at most SIZE in the host's\n"
          "memory until the backward pass")};
  WholeNumberFlag group_size{
      "group-size", llvm::cl::desc("Neighbouring elements that share a scale (default 256)"),
      llvm::cl::value_desc("G"), llvm::cl::init(kDefaultGroupSize), llvm::cl::cat(compile)};
  llvm::cl::opt<std::string> compute{
      "compute", llvm::cl::value_desc("f32|bf16|auto"), llvm::cl::init("f32"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "bf16: activations and their gradients are bfloat16 in memory, and products multiply bfloat16.\n"
          "Sums, statistics, losses, parameters and their gradients stay float32 (default: f32).\n"
          "auto: --memory-limit chooses")};
  llvm::cl::opt<std::string> fpmath{
      "fpmath", llvm::cl::value_desc("bf16|f32"), llvm::cl::init("bf16"), llvm::cl::cat(compile),
      llvm::cl::desc("bf16 (default): kernels may round gradients and decoded numbers to bfloat16 before\n"
                     "multiplying them, where that is faster; f32: they do not")};
  llvm::cl::opt<std::string> plugin{
      "plugin", llvm::cl::value_desc("LIB.so"), llvm::cl::cat(compile),
      llvm::cl::desc("Use this library's codec wherever the level stores plain numbers in few bits")};
  llvm::cl::opt<std::string> target{
      "target", llvm::cl::value_desc(kTargetForms), llvm::cl::init("cpu"), llvm::cl::cat(compile),
      llvm::cl::desc(
          "The machine of the report, and whose peak the planner lowers (default: cpu). With a card, the\n"
          "report says whether the step fits it. all: a report for each. The plan runs on any of them")};
  SwitchFlag aot{
      "aot", llvm::cl::cat(compile),
      llvm::cl::desc(
          "With --target=cuda:CARD: put the code of all kernels for that card, and the engines of\n"
          "all convolutions at --batch, into the plan; a run there then starts in seconds")};
  llvm::cl::opt<std::string> workspace{"workspace",
                                       llvm::cl::desc("Limit of one kernel's scratch memory (default: none)"),
                                       llvm::cl::value_desc("SIZE"), llvm::cl::cat(compile)};
  SeedFlag seed{"seed",
                llvm::cl::desc("Seed of --init, and actrun's own where it is given none (default: 0)"),
                llvm::cl::value_desc("S"), llvm::cl::cat(compile)};

  llvm::cl::opt<std::string> loss{
      "loss", llvm::cl::cat(model_group), llvm::cl::value_desc("KIND"),
      llvm::cl::desc("Add a loss, and its input `label`, to a model that ends in predictions: cross-entropy "
                     "([N,C,..]),\n"
                     "token-cross-entropy ([N,T,C]: a language model), mse, l1, smooth-l1, bce-with-logits")};
  llvm::cl::opt<std::string> loss_output{
      "loss-output", llvm::cl::cat(model_group), llvm::cl::value_desc("NAME"),
      llvm::cl::desc("The output that is the loss (default: the only scalar float output)")};
  llvm::cl::list<std::string> dims{"dim", llvm::cl::cat(model_group), llvm::cl::value_desc("NAME=EXTENT"),
                                   llvm::cl::desc("The extent of a symbolic axis; N: the axis is the batch")};
  llvm::cl::list<std::string> freeze{"freeze", llvm::cl::cat(model_group), llvm::cl::value_desc("GLOB"),
                                     llvm::cl::CommaSeparated,
                                     llvm::cl::desc("Do not train the parameters whose names match")};
  SwitchFlag freeze_bn{
      "freeze-bn", llvm::cl::cat(model_group),
      llvm::cl::desc("BatchNormalization uses its stored statistics and does not update them")};
  llvm::cl::opt<std::string> optimizer_model{
      "optimizer-model", llvm::cl::cat(model_group), llvm::cl::value_desc("FILE"),
      llvm::cl::desc(
          "The optimizer of an ONNX Runtime training graph (default, without --optimizer: the file\n"
          "optimizer_model.onnx beside the model)")};
  llvm::cl::opt<std::string> checkpoint{
      "checkpoint", llvm::cl::cat(model_group), llvm::cl::value_desc("FILE"),
      llvm::cl::desc(
          "The initial parameters of an ONNX Runtime training graph (default: the file `checkpoint`\n"
          "beside the model)")};
  llvm::cl::opt<std::string> init{
      "init", llvm::cl::cat(model_group), llvm::cl::value_desc("he"),
      llvm::cl::desc(
          "he: seeded initial weights where the model has none (its external data is missing, or one\n"
          "number fills the tensor)")};

  WholeNumberFlag batch{
      "batch", llvm::cl::desc("The report's batch size (default: the model's if it is fixed, else 1)"),
      llvm::cl::value_desc("N"), llvm::cl::init(1), llvm::cl::cat(reports)};
  llvm::cl::opt<std::string> report{
      "report", llvm::cl::desc("text (default): print the report; none: do not"),
      llvm::cl::value_desc("text|none"), llvm::cl::init("text"), llvm::cl::cat(reports)};
  llvm::cl::opt<std::string> report_json{"report-json", llvm::cl::desc("Write the report as JSON"),
                                         llvm::cl::value_desc("FILE"), llvm::cl::cat(reports)};
  llvm::cl::opt<std::string> report_html{"report-html",
                                         llvm::cl::desc("Write the report as a web page with pictures"),
                                         llvm::cl::value_desc("FILE"), llvm::cl::cat(reports)};
  llvm::cl::opt<std::string> compare{
      "compare", llvm::cl::value_desc("LEVEL,..."), llvm::cl::cat(reports),
      llvm::cl::desc(
          "Instead of one plan's report: those of several levels, relative to L0. auto:SIZE is the step\n"
          "that --memory-limit=SIZE chooses")};
  llvm::cl::opt<std::string> fit{
      "fit", llvm::cl::value_desc("SIZE[:DIM]"), llvm::cl::cat(reports),
      llvm::cl::desc(
          "With --compare: each level's largest batch, or extent of --dim=DIM, whose peak fits SIZE")};
  llvm::cl::opt<std::string> gpu_share{
      "gpu-share", llvm::cl::value_desc("SIZE"), llvm::cl::cat(reports),
      llvm::cl::desc(
          "With --compare on a GPU: what its driver's context and libraries take beside the arena; counted\n"
          "in every peak and in what is to fit")};
  llvm::cl::opt<std::string> micro_batches{
      "micro-batches", llvm::cl::value_desc("K,..."), llvm::cl::cat(reports),
      llvm::cl::desc(
          "With --compare: the peaks if --batch is cut into K micro-batches, summed for one update")};
  llvm::cl::opt<std::string> rates{
      "rates", llvm::cl::value_desc("measured|GFLOPS,GBPS"), llvm::cl::cat(reports),
      llvm::cl::desc(
          "With --compare: the machine whose time is estimated, in 10^9 operations of products and 10^9\n"
          "bytes a second; measured: this one (default: two cores with AVX-512; of a GPU: none)")};
  llvm::cl::opt<std::string> explain{
      "explain", llvm::cl::ValueOptional, llvm::cl::value_desc("GLOB"), llvm::cl::cat(reports),
      llvm::cl::desc(
          "For each saved activation: what reads it, why it is saved, how it is stored, and its bytes\n"
          "before and after")};

  llvm::cl::opt<std::string> emit_onnx{
      "emit-onnx", llvm::cl::cat(debugging), llvm::cl::value_desc("FILE"),
      llvm::cl::desc("Write the rewritten graph as ONNX; Compress and Decompress are in domain act")};
  llvm::cl::opt<std::string> print_after{
      "print-after", llvm::cl::cat(debugging), llvm::cl::value_desc("PASS"),
      llvm::cl::desc("Print the graph after this pass (`import`: as it was read; `all`: after every pass)")};
  SwitchFlag verify_each{"verify-each", llvm::cl::cat(debugging),
                         llvm::cl::desc("Verify the graph after every pass")};
  SwitchFlag time_passes{"time-passes", llvm::cl::cat(debugging),
                         llvm::cl::desc("Print the seconds of each pass")};
};

struct CompileRequest {
  ImportOptions import;
  CompileOptions compile;
  TargetChoice target;
  int64_t memory_limit = 0;  // bytes; 0: the level is given
  StepChoices choices = {};  // what the limit may change, too
  std::optional<CompareRequest> compare = std::nullopt;
};

// Errors are wrong usage: no file has been read.
llvm::Expected<CompileRequest> MakeCompileRequest(const CompileFlags& f);

}  // namespace act
