// The flags of actrun.
#pragma once

#include <llvm/Support/CommandLine.h>

#include <string>

#include "tools/flags.h"
#include "tools/measurement.h"
#include "tools/optimizer_flags.h"

namespace act {

struct RunFlags {
  llvm::cl::OptionCategory machine{"Machine"};
  llvm::cl::OptionCategory data_group{
      "Data", "Without --inputs and --data the inputs are random: for timing and memory."};
  llvm::cl::OptionCategory training{"Training"};
  llvm::cl::OptionCategory optimizer_group{
      "Optimizer",
      "Defaults follow the optimizer that the plan was compiled with; a flag "
      "that it does not take is refused."};
  llvm::cl::OptionCategory files{"Checkpoints and reports"};

  llvm::cl::opt<std::string> plan{llvm::cl::Positional, llvm::cl::desc("PLAN"), llvm::cl::cat(machine)};
  WholeNumberFlag batch{"batch", llvm::cl::desc("Samples of a step (default: the plan's batch size)"),
                        llvm::cl::value_desc("N"), llvm::cl::cat(machine)};
  llvm::cl::opt<std::string> device{
      "device", llvm::cl::value_desc("cpu|cuda|auto"), llvm::cl::init("cpu"), llvm::cl::cat(machine),
      llvm::cl::desc("Where to run: cpu (default), cuda (an NVIDIA GPU), or auto (a GPU if there is one)")};
  llvm::cl::opt<std::string> float_math{
      "fpmath", llvm::cl::value_desc("f32|tf32-conv|tf32"), llvm::cl::init("f32"), llvm::cl::cat(machine),
      llvm::cl::desc(
          "Float arithmetic of a GPU: f32 (default); tf32-conv: convolutions round their operands\n"
          "to tf32, as PyTorch does; tf32: matrix products too")};
  WholeNumberFlag threads{"threads",
                          llvm::cl::desc("Threads (default: the physical cores that the process may use)"),
                          llvm::cl::value_desc("T"), llvm::cl::cat(machine)};
  llvm::cl::opt<std::string> tune{
      "tune", llvm::cl::value_desc("off|on|force"), llvm::cl::cat(machine),
      llvm::cl::desc(
          "Whether the processor's kernels, or a GPU's engines of convolutions, are chosen by time: on\n"
          "(default; times once on a machine), off (in a fixed order), or force (times again)")};
  llvm::cl::list<std::string> plugins{
      "plugin", llvm::cl::value_desc("LIB.so"), llvm::cl::CommaSeparated, llvm::cl::cat(machine),
      llvm::cl::desc("The libraries with the codecs that the plan was compiled with")};
  SwitchFlag check_memory{
      "check-memory", llvm::cl::cat(machine),
      llvm::cl::desc(
          "After each operator, verify that it wrote only its own tensors; verify every call of a\n"
          "plugin's codec too (slow)")};

  llvm::cl::opt<std::string> inputs{"inputs", llvm::cl::desc("One fixed batch, its tensors by input name"),
                                    llvm::cl::value_desc("FILE.safetensors"), llvm::cl::cat(data_group)};
  llvm::cl::opt<std::string> data{
      "data", llvm::cl::value_desc("NAME=FILE,..."), llvm::cl::cat(data_group),
      llvm::cl::desc("Data set: for each input NAME=FILE.npy or NAME=FILE.safetensors[:TENSOR], or one\n"
                     "FILE.safetensors for all; FILE may be a pattern (x-*.npy). Shuffled each epoch")};
  llvm::cl::opt<std::string> eval_data{
      "eval-data", llvm::cl::value_desc("NAME=FILE,..."), llvm::cl::cat(data_group),
      llvm::cl::desc("Data set on which loss and accuracy are measured after each epoch of --data")};
  SwitchFlag prefetch{"prefetch", llvm::cl::init(true), llvm::cl::cat(data_group),
                      llvm::cl::desc("Read the next batch of --data while a step computes (default: true)")};
  SeedFlag seed{
      "seed", llvm::cl::value_desc("S"), llvm::cl::cat(data_group),
      llvm::cl::desc(
          "Seed of shuffling, dropout, rounding and random inputs (default: the checkpoint's, else the\n"
          "plan's); it does not change initial weights")};

  WholeNumberFlag steps{
      "steps",
      llvm::cl::desc("Steps of this run; with --resume, steps in all (default: 10, or one epoch of --data)"),
      llvm::cl::value_desc("K"), llvm::cl::cat(training)};
  WholeNumberFlag epochs{
      "epochs",
      llvm::cl::desc(
          "Epochs of this run, or with --resume in all; it ends after --steps or --epochs, whichever\n"
          "comes first"),
      llvm::cl::value_desc("E"), llvm::cl::cat(training)};
  WholeNumberFlag patience{
      "patience", llvm::cl::value_desc("K"), llvm::cl::cat(training),
      llvm::cl::desc("End the run once K evaluations in a row have not improved the loss of --eval-data")};
  llvm::cl::opt<std::string> patience_of{"patience-of", llvm::cl::value_desc("loss|accuracy"),
                                         llvm::cl::init("loss"), llvm::cl::cat(training),
                                         llvm::cl::desc("What --patience looks at (default: loss)")};
  WholeNumberFlag adapt_every{
      "adapt-every", llvm::cl::value_desc("K"), llvm::cl::cat(training),
      llvm::cl::desc(
          "After each K steps of --data, measure how much each code adds to the gradient's variance,\n"
          "and move bits to the codes that matter most; the memory stays as planned")};
  OptimizerFlags hyper{optimizer_group};
  llvm::cl::opt<std::string> lr_schedule{
      "lr-schedule", llvm::cl::init("constant"), llvm::cl::cat(optimizer_group),
      llvm::cl::value_desc("SCHEDULE"),
      llvm::cl::desc("Learning rate over time: constant, step,EVERY,FACTOR, cosine[,MIN[,STEPS]] or\n"
                     "onecycle[,PEAK[,STEPS[,RISE[,DIV[,FINAL_DIV]]]]]")};
  llvm::cl::opt<std::string> warmup{
      "warmup", llvm::cl::value_desc("STEPS[,START]"), llvm::cl::cat(optimizer_group),
      llvm::cl::desc(
          "Raise the rate in equal steps from START (0) times --lr; then the schedule starts. STEPS\n"
          "count from the start of training, with those of a checkpoint")};

  MeasurementFlags measurement;

  llvm::cl::opt<std::string> load{"load",
                                  llvm::cl::desc("Continue from a checkpoint, for --steps or --epochs more"),
                                  llvm::cl::value_desc("FILE"), llvm::cl::cat(files)};
  llvm::cl::opt<std::string> save{"save", llvm::cl::desc("Write a checkpoint at the end (safetensors)"),
                                  llvm::cl::value_desc("FILE"), llvm::cl::cat(files)};
  llvm::cl::opt<std::string> save_every{
      "save-every", llvm::cl::value_desc("STEPS|TIME"), llvm::cl::cat(files),
      llvm::cl::desc(
          "Save during the run too, each time that so many steps are done (500) or so much time has\n"
          "passed (30s, 10min, 2h): FILE.step-00000500.safetensors beside --save=FILE.safetensors")};
  WholeNumberFlag keep{"keep", llvm::cl::init(2), llvm::cl::value_desc("K"), llvm::cl::cat(files),
                       llvm::cl::desc("Files of --save-every that stay, the newest ones (default: 2)")};
  llvm::cl::opt<std::string> save_best{
      "save-best", llvm::cl::value_desc("loss|accuracy"), llvm::cl::cat(files),
      llvm::cl::desc("Save the state with the best evaluation by --eval-data: FILE.best.safetensors")};
  SwitchFlag resume{
      "resume", llvm::cl::cat(files),
      llvm::cl::desc(
          "Continue from the newest checkpoint of --save, or start if there is none. --steps and\n"
          "--epochs then count from the start of training, so the same command ends what was killed")};
  llvm::cl::opt<std::string> export_onnx{
      "export-onnx", llvm::cl::value_desc("FILE"), llvm::cl::cat(files),
      llvm::cl::desc("Write the model with its trained weights, ready for inference")};
  llvm::cl::opt<std::string> dump_step{
      "dump-step", llvm::cl::value_desc("FILE"), llvm::cl::cat(files),
      llvm::cl::desc("Write the first step's loss, gradients and running statistics (safetensors)")};
  llvm::cl::opt<std::string> report_json{"report-json",
                                         llvm::cl::desc("Write memory, losses and times as JSON"),
                                         llvm::cl::value_desc("FILE"), llvm::cl::cat(files)};
  llvm::cl::opt<std::string> log{
      "log", llvm::cl::value_desc("FILE.jsonl"), llvm::cl::cat(files),
      llvm::cl::desc("Write a line of JSON for each step, while the run goes on; --load appends to it")};
  llvm::cl::opt<std::string> report_html{
      "report-html", llvm::cl::value_desc("FILE"), llvm::cl::cat(files),
      llvm::cl::desc("Write a page about the run: losses, rates, times, memory")};
  SwitchFlag profile{"profile", llvm::cl::desc("Print the most expensive kernels and nodes"),
                     llvm::cl::cat(files)};
  llvm::cl::opt<std::string> dump_kernels{
      "dump-kernels", llvm::cl::value_desc("DIR"), llvm::cl::cat(files),
      llvm::cl::desc("Write the source of each kernel that is compiled for a GPU")};
  llvm::cl::opt<std::string> verbose{
      "verbose", llvm::cl::value_desc("dispatch"), llvm::cl::cat(files),
      llvm::cl::desc("dispatch: print each node's kernel, and why faster ones refused")};
};

// What is wrong with the flags by themselves, or "".
std::string CheckUsage(const RunFlags& f);

}  // namespace act
