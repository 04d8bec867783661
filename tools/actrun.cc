// actrun: trains with a plan that actc made. docs/cli.md describes the command line.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <omp.h>

#include <csignal>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "compiler/emit/export_trained.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/size.h"
#include "runtime/codec/plugin.h"
#include "runtime/data/batch_source.h"
#include "runtime/data/dataset.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/machine.h"
#include "runtime/executor/profile.h"
#include "runtime/levels/adapt_levels.h"
#include "runtime/memory/layout.h"
#include "runtime/plan/plan_io.h"
#include "runtime/plan/plugins.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/kernel_record.h"
#include "runtime/train/run_report.h"
#include "runtime/train/trainer.h"
#include "tools/device.h"
#include "tools/flags.h"
#include "tools/measurement.h"
#include "tools/optimizer_flags.h"
#include "tools/resumed_levels.h"
#include "tools/tuning.h"

namespace act {
namespace {

namespace cl = llvm::cl;

constexpr char kTool[] = "actrun";
constexpr int kFailed = 1;
constexpr int64_t kDefaultSteps = 10;

volatile std::sig_atomic_t g_stop = 0;

struct Flags {
  cl::OptionCategory machine{"Machine"};
  cl::OptionCategory data_group{"Data",
                                "Without --inputs and --data the inputs are random: for timing and memory."};
  cl::OptionCategory training{"Training"};
  cl::OptionCategory optimizer_group{"Optimizer",
                                     "Defaults follow the optimizer that the plan was compiled with; a flag "
                                     "that it does not take is refused."};
  cl::OptionCategory files{"Checkpoints and reports"};

  cl::opt<std::string> plan{cl::Positional, cl::desc("PLAN"), cl::cat(machine)};
  WholeNumberFlag batch{"batch", cl::desc("Samples of a step (default: the plan's batch size)"),
                        cl::value_desc("N"), cl::cat(machine)};
  cl::opt<std::string> device{
      "device", cl::value_desc("cpu|cuda|auto"), cl::init("cpu"), cl::cat(machine),
      cl::desc("Where to run: cpu (default), cuda (an NVIDIA GPU), or auto (a GPU if there is one)")};
  cl::opt<std::string> float_math{
      "fpmath", cl::value_desc("f32|tf32-conv|tf32"), cl::init("f32"), cl::cat(machine),
      cl::desc("Float arithmetic of a GPU: f32 (default); tf32-conv: convolutions round their operands\n"
               "to tf32, as PyTorch does; tf32: matrix products too")};
  WholeNumberFlag threads{"threads",
                          cl::desc("Threads (default: the physical cores that the process may use)"),
                          cl::value_desc("T"), cl::cat(machine)};
  cl::opt<std::string> tune{
      "tune", cl::value_desc("off|on|force"), cl::cat(machine),
      cl::desc("Whether the processor's kernels are chosen by time: on (default; times once on a machine),\n"
               "off (in a fixed order), or force (times again)")};
  cl::list<std::string> plugins{"plugin", cl::value_desc("LIB.so"), cl::CommaSeparated, cl::cat(machine),
                                cl::desc("The libraries with the codecs that the plan was compiled with")};
  SwitchFlag check_memory{
      "check-memory", cl::cat(machine),
      cl::desc("After each operator, verify that it wrote only its own tensors; verify every call of a\n"
               "plugin's codec too (slow)")};

  cl::opt<std::string> inputs{"inputs", cl::desc("One fixed batch, its tensors by input name"),
                              cl::value_desc("FILE.safetensors"), cl::cat(data_group)};
  cl::opt<std::string> data{
      "data", cl::value_desc("NAME=FILE.npy,..."), cl::cat(data_group),
      cl::desc("Data set: one .npy file for each input, samples along the first axis; shuffled each epoch")};
  cl::opt<std::string> eval_data{
      "eval-data", cl::value_desc("NAME=FILE.npy,..."), cl::cat(data_group),
      cl::desc("Data set on which loss and accuracy are measured after each epoch of --data")};
  SeedFlag seed{
      "seed", cl::value_desc("S"), cl::cat(data_group),
      cl::desc("Seed of shuffling, dropout and rounding (default: the checkpoint's, else the plan's)")};

  WholeNumberFlag steps{"steps", cl::desc("Steps of this run (default: 10, or one epoch of --data)"),
                        cl::value_desc("K"), cl::cat(training)};
  WholeNumberFlag epochs{
      "epochs", cl::desc("Epochs of this run; it ends after --steps or --epochs, whichever comes first"),
      cl::value_desc("E"), cl::cat(training)};
  WholeNumberFlag adapt_every{
      "adapt-every", cl::value_desc("K"), cl::cat(training),
      cl::desc("After each K steps of --data, measure how much each code adds to the gradient's variance,\n"
               "and move bits to the codes that matter most; the memory stays as planned")};
  OptimizerFlags hyper{optimizer_group};
  cl::opt<std::string> lr_schedule{
      "lr-schedule", cl::init("constant"), cl::cat(optimizer_group), cl::value_desc("SCHEDULE"),
      cl::desc("Learning rate over time: constant, step,EVERY,FACTOR or cosine[,MIN[,STEPS]]")};

  MeasurementFlags measurement;

  cl::opt<std::string> load{"load", cl::desc("Continue from a checkpoint"), cl::value_desc("FILE"),
                            cl::cat(files)};
  cl::opt<std::string> save{"save", cl::desc("Write a checkpoint at the end (safetensors)"),
                            cl::value_desc("FILE"), cl::cat(files)};
  cl::opt<std::string> export_onnx{"export-onnx", cl::value_desc("FILE"), cl::cat(files),
                                   cl::desc("Write the model with its trained weights, ready for inference")};
  cl::opt<std::string> dump_step{
      "dump-step", cl::value_desc("FILE"), cl::cat(files),
      cl::desc("Write the first step's loss, gradients and running statistics (safetensors)")};
  cl::opt<std::string> report_json{"report-json", cl::desc("Write memory, losses and times as JSON"),
                                   cl::value_desc("FILE"), cl::cat(files)};
  SwitchFlag profile{"profile", cl::desc("Print the most expensive kernels and nodes"), cl::cat(files)};
  cl::opt<std::string> dump_kernels{"dump-kernels", cl::value_desc("DIR"), cl::cat(files),
                                    cl::desc("Write the source of each kernel that is compiled for a GPU")};
  cl::opt<std::string> verbose{"verbose", cl::value_desc("dispatch"), cl::cat(files),
                               cl::desc("dispatch: print each node's kernel, and why faster ones refused")};
};

// What is wrong with the flags by themselves, or "".
std::string CheckUsage(const Flags& f) {
  if (f.plan.empty()) return "no plan is given\nactrun PLAN --batch=N; --help lists all flags";
  if (f.batch.getNumOccurrences() && f.batch < 1) return "--batch: a batch has at least one sample";
  if (f.threads.getNumOccurrences() && (f.threads < 1 || f.threads > 4096))
    return "--threads: expected 1 to 4096";
  if (!IsDeviceName(f.device))
    return std::string("--device: expected ") + kDeviceNames + ", found '" + f.device + "'";
  if (!IsFloatMathName(f.float_math))
    return std::string("--fpmath: expected ") + kFloatMathNames + ", found '" + f.float_math + "'";
  if (f.device == "cpu" && !f.dump_kernels.empty())
    return "--dump-kernels: only a GPU's kernels are compiled";
  if (f.device == "cpu" && f.float_math != "f32")
    return "--fpmath: only a GPU has tf32; actc --fpmath chooses the processor's arithmetic";
  if (f.device == "cuda" && f.tune.getNumOccurrences())
    return "--tune: only the processor's kernels are chosen by time";
  if (f.steps.getNumOccurrences() && f.steps < 1) return "--steps: expected at least 1";
  if (f.epochs.getNumOccurrences() && f.epochs < 1) return "--epochs: expected at least 1";
  if (f.adapt_every.getNumOccurrences() && f.adapt_every < 1) return "--adapt-every: expected at least 1";
  if (f.adapt_every > 0 && f.data.empty())
    return "--adapt-every: needs --data; one fixed batch does not tell what others need";
  if (const std::string wrong = f.hyper.CheckRanges(); !wrong.empty()) return wrong;
  if (!f.inputs.empty() && !f.data.empty()) return "--inputs and --data: give one of them";
  if (!f.eval_data.empty() && f.data.empty()) return "--eval-data: needs --data, whose epochs it follows";
  if (f.epochs > 0 && f.data.empty())
    return "--epochs: needs --data; without it there are steps, but no epochs";
  if (const std::string wrong = f.measurement.CheckUsage(); !wrong.empty()) return wrong;
  if (f.measurement.Requested()) {
    for (const cl::Option* other :
         std::initializer_list<const cl::Option*>{&f.steps, &f.epochs, &f.adapt_every, &f.eval_data, &f.save,
                                                  &f.export_onnx, &f.dump_step, &f.profile})
      if (other->getNumOccurrences())
        return "--" + other->ArgStr.str() + ": belongs to training; --variance and --calibrate do not train";
  }
  if (!f.verbose.empty() && f.verbose != "dispatch")
    return "--verbose: expected dispatch, found '" + f.verbose + "'";
  return "";
}

// A path that cannot be written is an error before the run, not after it.
llvm::Error CheckWritable(const std::string& path) {
  return path.empty() ? llvm::Error::success() : OutputFile::Create(path).takeError();
}

// Exports the parameters and running statistics that are in the arena.
llvm::Error Export(const Executor& executor, const std::string& path) {
  std::map<std::string, const TensorView*> views;
  for (const PersistentTensor& tensor : executor.persistents())
    if (tensor.kind == ValueKind::kParameter || tensor.kind == ValueKind::kBuffer)
      views[tensor.name] = &tensor.view;
  const auto values = [&](const std::string& name) -> llvm::Expected<std::span<const std::byte>> {
    const auto view = views.find(name);
    if (view == views.end()) return std::span<const std::byte>();
    return executor.device().Read(view->second->data, view->second->bytes);
  };
  return ExportTrainedOnnx(executor.plan(), values, path);
}

// Reads the plan and binds the codecs of its plugins.
llvm::Expected<Plan> ReadRunnable(const Flags& f) {
  std::vector<const act_codec*> loaded;
  for (const std::string& path : f.plugins) {
    ACT_TRY(const act_codec* codec, LoadCodecPlugin(path));
    loaded.push_back(codec);
  }
  ACT_TRY(Plan plan, ReadPlan(f.plan));
  if (llvm::Error error = BindPlugins(plan, loaded, f.check_memory))
    return WithPlace(std::move(error), f.plan);
  return plan;
}

llvm::Error OpenSources(const Flags& f, const Plan& plan, Opened& opened) {
  const int64_t batch = opened.executor->layout().batch;
  const uint64_t seed = opened.position.seed;
  const DataSetOptions options{.shuffle = true, .seed = seed, .partial_batch = !plan.fixed_batch};
  const DataSetOptions eval_options{.shuffle = false, .seed = seed, .partial_batch = !plan.fixed_batch};
  const std::vector<InputSlot> slots = InputSlots(plan.train.graph);
  if (!f.inputs.empty()) {
    ACT_TRY(opened.data, FixedBatch(slots, f.inputs, batch));
  } else if (!f.data.empty()) {
    ACT_TRY(opened.data, OpenDataSet(slots, batch, "--data", f.data, options));
  } else {
    opened.data = RandomBatch(slots, seed);
  }
  if (f.eval_data.empty()) return llvm::Error::success();
  if (plan.eval.graph.nodes.empty()) return MakeError("--eval-data", "the plan has no graph for evaluation");
  ACT_TRY(opened.eval_data,
          OpenDataSet(InputSlots(plan.eval.graph), batch, "--eval-data", f.eval_data, eval_options));
  return llvm::Error::success();
}

TrainOptions OptionsOf(const Flags& f, const Hyperparameters& hyper, LearningRateSchedule schedule) {
  TrainOptions options{.steps = f.steps,
                       .epochs = f.epochs,
                       .hyper = hyper,
                       .schedule = schedule,
                       .dump_step = f.dump_step,
                       .stop = &g_stop};
  if (options.steps == 0 && options.epochs == 0)
    (f.data.empty() ? options.steps : options.epochs) = f.data.empty() ? kDefaultSteps : 1;
  return options;
}

// Whether the arenas fit into the device's memory. The gradients that --adapt-every compares are the host's.
llvm::Error CheckRoom(const Flags& f, const Plan& plan, const MemoryLayout& layout, const Device& device) {
  ACT_TRY(const int64_t free_bytes, device.AvailableBytes());
  if (layout.target != TargetKind::kCpu)
    return CheckFits(
        plan, layout,
        {.free_bytes = free_bytes, .place = "the card (" + device.name() + ")", .arenas = Arenas::kDevice});
  const int64_t beside = f.adapt_every > 0 ? CodeSensitivityMeter::BytesOf(plan, layout.batch) : 0;
  return CheckFits(plan, layout, {.free_bytes = free_bytes - beside});
}

// The machine that runs a plan.
struct Machine {
  Device& device;
  const KernelRegistry& kernels;
  int threads;
  KernelTuner* tuner;
};

llvm::Expected<Opened> Open(const Flags& f, const Plan& plan, const Hyperparameters& hyper,
                            const Machine& machine) {
  ACT_TRY(MemoryLayout layout, LayOut(plan, f.batch > 0 ? static_cast<int64_t>(f.batch) : plan.default_batch,
                                      machine.device.target()));
  ACT_CHECK_OK(CheckRoom(f, plan, layout, machine.device));
  Opened opened;
  ACT_TRY(opened.executor, Executor::Create(plan, std::move(layout), machine.device, machine.kernels,
                                            {.threads = machine.threads,
                                             .check_memory = f.check_memory,
                                             .tuner = machine.tuner,
                                             .evaluates = !f.eval_data.empty()}));
  opened.position.seed = plan.seed;
  ACT_CHECK_OK(StartOptimizerState(*opened.executor, hyper));
  if (!f.load.empty()) ACT_CHECK_OK(LoadCheckpoint(f.load, *opened.executor, opened.position));
  if (f.seed.getNumOccurrences()) opened.position.seed = f.seed;
  ACT_CHECK_OK(OpenSources(f, plan, opened));
  if (f.verbose == "dispatch") {
    for (const BoundGraph* graph : opened.executor->BoundTrainGraphs())
      llvm::errs() << FormatDispatch(graph->nodes());
  }
  return opened;
}

llvm::Error Run(const Flags& f, const Plan& plan, const Hyperparameters& hyper,
                const LearningRateSchedule& schedule, Tuning tuning) {
  ACT_CHECK_OK(CheckWritable(f.measurement.save_plan()));
  for (const auto* path : {&f.save, &f.export_onnx, &f.dump_step, &f.report_json})
    ACT_CHECK_OK(CheckWritable(*path));
  const int threads = f.threads > 0 ? static_cast<int>(f.threads) : PhysicalCores();
  omp_set_num_threads(threads);
  const auto say = [](const std::string& line) { llvm::errs() << kTool << ": " << line << "\n"; };
  ACT_TRY(ChosenDevice chosen, OpenDevice({.name = f.device,
                                           .float_math = f.float_math,
                                           .profile = f.profile,
                                           .dump_kernels = f.dump_kernels,
                                           .say = say,
                                           .prepared = plan.prepared}));
  if (!chosen.note.empty()) say(chosen.note);
  Device& device = *chosen.device;
  const bool on_processor = device.target() == TargetKind::kCpu;
  const std::unique_ptr<KernelTuner> tuner =
      MakeTuner(on_processor ? tuning : Tuning::kOff, chosen.kernels, threads, say);
  const Machine machine{device, chosen.kernels, threads, tuner.get()};
  ACT_TRY(ResumedLevels resumed, ReadResumedLevels(f.load, plan));
  if (f.measurement.Requested()) {
    const auto open = [&](const Plan& form) { return Open(f, form, hyper, machine); };
    return f.measurement.Run(resumed.plan ? *resumed.plan : plan, open, !f.data.empty(), f.report_json,
                             &g_stop);
  }
  LevelAdapter adapter(plan, f.adapt_every, &g_stop);
  if (f.adapt_every > 0) ACT_CHECK_OK(adapter.CheckPlan());
  ACT_TRY(Opened opened, Open(f, plan, hyper, machine));
  const std::unique_ptr<Executor>& executor = opened.executor;
  TrainPosition& position = opened.position;
  if (!f.load.empty()) {
    ACT_TRY(const std::string warning, CompareKernels(f.load, *executor));
    if (!warning.empty()) say(warning);
  }
  ACT_CHECK_OK(GoOnWithLevels(f.load, std::move(resumed), adapter, *executor));

  TrainOptions options = OptionsOf(f, hyper, schedule);
  options.between = &adapter;
  ACT_TRY(const TrainResult result,
          Train(*executor, *opened.data, opened.eval_data.get(), options, position));
  if (result.interrupted) llvm::errs() << "actrun: interrupted after step " << position.step << "\n";
  if (!f.save.empty()) ACT_CHECK_OK(SaveCheckpoint(f.save, *executor, position, adapter.levels()));
  if (!f.export_onnx.empty()) ACT_CHECK_OK(Export(*executor, f.export_onnx));

  ACT_TRY(const Device::BytesBeside beside, device.MeasureBeside());
  const RunReport report{
      .executor = executor.get(),
      .result = &result,
      .profile = CollectProfile(executor->BoundTrainGraphs()),
      .device = device.name(),
      .threads = threads,
      .seed = position.seed,
      .hyper = hyper,
      .resident_peak_bytes = ResidentPeakBytes(),
      .beside = beside,
      .tuner = tuner.get(),
      .adapt_every = f.adapt_every,
      .adaptations = adapter.history(),
      .adaptation_bytes =
          f.adapt_every > 0 ? CodeSensitivityMeter::BytesOf(plan, executor->layout().batch) : 0};
  if (!f.report_json.empty()) ACT_CHECK_OK(WriteFile(f.report_json, RunReportJson(report)));
  llvm::outs() << FormatRunReport(report);
  if (f.profile) llvm::outs() << "\n=== Profile ===\n" << FormatProfile(report.profile, result.losses.size());
  return llvm::Error::success();
}

// At a signal, the current step is finished and saved; a second signal ends the process at once.
void StopAtSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_stop = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int Main(int argc, char** argv) {
  Flags flags;
  cl::HideUnrelatedOptions({&flags.machine, &flags.data_group, &flags.training, &flags.optimizer_group,
                            &flags.measurement.category(), &flags.files});
  cl::SetVersionPrinter([](llvm::raw_ostream& os) { os << "actrun " ACT_VERSION "\n"; });
  if (!ReadCommandLine(kTool, "actrun PLAN --batch=N; actrun --help lists the flags",
                       "Trains with a plan that actc made.\n\n"
                       "  actrun plan.bin --batch=64 --steps=20\n"
                       "      random inputs, to measure time and memory\n"
                       "  actrun plan.bin --batch=64 --epochs=9 --data=image=x.npy,label=y.npy\n"
                       "      trains\n",
                       argc, argv))
    return kWrongUsage;
  const std::string wrong = CheckUsage(flags);
  if (!wrong.empty()) return UsageError(kTool, wrong);
  auto schedule = LearningRateSchedule::Parse(flags.lr_schedule);
  if (!schedule) {
    PrintError(kTool, schedule.takeError());
    return kWrongUsage;
  }
  llvm::Expected<Tuning> tuning = ReadTuning(flags.tune);
  if (!tuning) {
    PrintError(kTool, tuning.takeError());
    return kWrongUsage;
  }
  llvm::Expected<Plan> plan = ReadRunnable(flags);
  if (!plan) {
    PrintError(kTool, plan.takeError());
    return kFailed;
  }
  llvm::Expected<Hyperparameters> hyper = flags.hyper.Resolve(plan->optimizer, plan->hyper);
  if (!hyper) {
    PrintError(kTool, hyper.takeError());
    return kWrongUsage;
  }
  StopAtSignals();
  if (llvm::Error error = Run(flags, *plan, *hyper, *schedule, *tuning)) {
    PrintError(kTool, std::move(error));
    return kFailed;
  }
  return 0;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::Main(argc, argv); }
