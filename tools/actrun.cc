// actrun: trains with a plan that actc made. docs/cli.md describes the command line.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <omp.h>

#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
#include "runtime/train/checkpoint_files.h"
#include "runtime/train/input_staging.h"
#include "runtime/train/kernel_record.h"
#include "runtime/train/run_report.h"
#include "runtime/train/trainer.h"
#include "tools/device.h"
#include "tools/flags.h"
#include "tools/measurement.h"
#include "tools/output_files.h"
#include "tools/resumed_levels.h"
#include "tools/run_flags.h"
#include "tools/run_log.h"
#include "tools/run_tool.h"
#include "tools/saving.h"
#include "tools/tuning.h"

namespace act {
namespace {

namespace cl = llvm::cl;

constexpr char kTool[] = "actrun";
constexpr int kFailed = 1;
constexpr int64_t kDefaultSteps = 10;

volatile std::sig_atomic_t g_stop = 0;

// Exports the parameters and running statistics that are in the arena.
llvm::Error Export(const Executor& executor, const std::string& path) {
  std::map<std::string, const PersistentTensor*> tensors;
  for (const PersistentTensor& tensor : executor.persistents())
    if (tensor.kind == ValueKind::kParameter || tensor.kind == ValueKind::kBuffer)
      tensors[tensor.name] = &tensor;
  const auto values = [&](const std::string& name) -> llvm::Expected<std::span<const std::byte>> {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::span<const std::byte>();
    const PersistentTensor& tensor = *found->second;
    if (tensor.coded) return std::span(tensor.numbers.data, static_cast<size_t>(tensor.numbers.bytes));
    return executor.device().Read(tensor.view.data, tensor.view.bytes);
  };
  return ExportTrainedOnnx(executor.plan(), values, path);
}

// Reads a plan and binds the codecs of its plugins.
llvm::Expected<Plan> ReadRunnable(const RunFlags& f, const std::string& path) {
  std::vector<const act_codec*> loaded;
  for (const std::string& plugin : f.plugins) {
    ACT_TRY(const act_codec* codec, LoadCodecPlugin(plugin));
    loaded.push_back(codec);
  }
  ACT_TRY(Plan plan, ReadPlan(path));
  if (llvm::Error error = BindPlugins(plan, loaded, f.check_memory)) return WithPlace(std::move(error), path);
  return plan;
}

// Whether each batch of --data is read while the step before it computes.
bool ReadsAhead(const RunFlags& f) { return f.prefetch && !f.data.empty() && !f.measurement.Requested(); }

llvm::Error OpenSources(const RunFlags& f, const Plan& plan, int64_t batch, uint64_t seed, Opened& opened) {
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

TrainOptions OptionsOf(const RunFlags& f, const Hyperparameters& hyper, LearningRateSchedule schedule) {
  TrainOptions options{.steps = f.steps,
                       .epochs = f.epochs,
                       .from_start = f.resume,
                       .hyper = hyper,
                       .schedule = schedule,
                       .dump_step = f.dump_step,
                       .stop = &g_stop};
  if (options.steps == 0 && options.epochs == 0)
    (f.data.empty() ? options.steps : options.epochs) = f.data.empty() ? kDefaultSteps : 1;
  return options;
}

// Whether the arenas fit into the device's memory. The gradients that --adapt-every compares are the host's, and so
// are `beside_bytes`.
llvm::Error CheckRoom(const RunFlags& f, const Plan& plan, const MemoryLayout& layout, const Device& device,
                      int64_t beside_bytes) {
  ACT_TRY(const int64_t free_bytes, device.AvailableBytes());
  if (layout.target != TargetKind::kCpu)
    return CheckFits(
        plan, layout,
        {.free_bytes = free_bytes, .place = "the card (" + device.name() + ")", .arenas = Arenas::kDevice});
  const int64_t beside = beside_bytes +
                         (f.adapt_every > 0 ? CodeSensitivityMeter::BytesOf(plan, layout.batch) : 0) +
                         (ReadsAhead(f) ? InputStagingBytes(plan, layout, !f.eval_data.empty()) : 0);
  return CheckFits(plan, layout, {.free_bytes = free_bytes - beside});
}

// The machine that runs a plan.
struct Machine {
  Device& device;
  const KernelRegistry& kernels;
  int threads;
  KernelTuner* tuner;
};

llvm::Expected<Opened> Open(const RunFlags& f, const Plan& plan, const Hyperparameters& hyper,
                            const Machine& machine, const OpenOptions& options = {}) {
  ACT_TRY(MemoryLayout layout, LayOut(plan, f.batch > 0 ? static_cast<int64_t>(f.batch) : plan.default_batch,
                                      machine.device.target()));
  ACT_CHECK_OK(CheckRoom(f, plan, layout, machine.device, options.beside_bytes));
  const bool loads = options.load && !f.load.empty();
  Opened opened;
  opened.position.seed = plan.seed;
  if (loads) {
    ACT_TRY(opened.position, ReadPosition(f.load, plan.seed));
  }
  const uint64_t seed = f.seed.getNumOccurrences() ? static_cast<uint64_t>(f.seed) : opened.position.seed;
  // Before kernels are bound, which may take seconds to time them.
  ACT_CHECK_OK(OpenSources(f, plan, layout.batch, seed, opened));
  ACT_TRY(opened.executor, Executor::Create(plan, std::move(layout), machine.device, machine.kernels,
                                            {.threads = machine.threads,
                                             .check_memory = f.check_memory,
                                             .tuner = machine.tuner,
                                             .evaluates = !f.eval_data.empty()}));
  ACT_CHECK_OK(StartOptimizerState(*opened.executor, hyper));
  if (loads) ACT_CHECK_OK(LoadCheckpoint(f.load, *opened.executor, opened.position));
  opened.position.seed = seed;
  if (const std::string anew = GoOnWithData(opened.position, opened.data->SamplesPerEpoch()); !anew.empty())
    llvm::errs() << kTool << ": warning: " << f.load << ": " << anew << "\n";
  if (ReadsAhead(f))
    opened.staging_bytes = PrefetchInputs(plan, opened.executor->layout(), opened.data, opened.eval_data);
  if (f.verbose == "dispatch") {
    for (const BoundGraph* graph : opened.executor->BoundTrainGraphs())
      llvm::errs() << FormatDispatch(graph->nodes());
  }
  return opened;
}

// Whether the run can write its files, and would lose none that it reads.
llvm::Error CheckFiles(const RunFlags& f) {
  const std::string best = f.save_best.empty() ? "" : CheckpointFiles(f.save).best();
  // A state, and a plan, may take the place of the one from which it is made.
  std::vector<InputPath> inputs = {{"", f.plan, {"--save-plan"}},
                                   {f.resume ? "--resume" : "--load", f.load, {"--save", "--save-best"}},
                                   {"--inputs", f.inputs},
                                   {"--variance-reference", f.measurement.reference()}};
  for (const std::string& plugin : f.plugins) inputs.push_back({"--plugin", plugin});
  AddDataFiles("--data", f.data, inputs);
  AddDataFiles("--eval-data", f.eval_data, inputs);
  return CheckOutputs(inputs, {{"--save", f.save},
                               {"--save-best", best},
                               {"--export-onnx", f.export_onnx},
                               {"--dump-step", f.dump_step},
                               {"--report-json", f.report_json},
                               {"--report-html", f.report_html},
                               {"--save-plan", f.measurement.save_plan()},
                               {"--log", f.log, /*appends=*/true}});
}

llvm::Error Run(const RunFlags& f, const Plan& plan, const Hyperparameters& hyper,
                const LearningRateSchedule& schedule, Tuning tuning, const Saving& saving) {
  ACT_CHECK_OK(CheckFiles(f));
  const int threads = f.threads > 0 ? static_cast<int>(f.threads) : PhysicalCores();
  omp_set_num_threads(threads);
  const auto say = [](const std::string& line) { llvm::errs() << kTool << ": " << line << "\n"; };
  ACT_TRY(ChosenDevice chosen, OpenDevice({.name = f.device,
                                           .float_math = f.float_math,
                                           .profile = f.profile,
                                           .dump_kernels = f.dump_kernels,
                                           .tuning = tuning,
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
    const auto open = [&](const Plan& form, const OpenOptions& options) {
      return Open(f, form, hyper, machine, options);
    };
    std::optional<Plan> reference;
    if (const std::string& path = f.measurement.reference(); !path.empty()) {
      ACT_TRY(reference, ReadRunnable(f, path));
    }
    return f.measurement.Run(resumed.plan ? *resumed.plan : plan, reference ? &*reference : nullptr, open,
                             !f.data.empty(), f.report_json, &g_stop);
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
  ACT_TRY(RunWatch watch, RunWatch::Open(f, {.plan = plan,
                                             .executor = *executor,
                                             .start = position,
                                             .hyper = hyper,
                                             .device = device.name(),
                                             .threads = threads}));
  watch.AddTo(options.followers);
  const std::unique_ptr<RunFollower> saver = saving.Follower([&] { return adapter.levels(); });
  if (saver) options.followers.push_back(saver.get());
  llvm::Expected<TrainResult> trained =
      Train(*executor, *opened.data, opened.eval_data.get(), options, position);
  if (!trained) return watch.Failed(trained.takeError(), position);
  const TrainResult& result = *trained;
  watch.Ended(result, position);
  if (result.interrupted) llvm::errs() << "actrun: interrupted after step " << position.step << "\n";
  if (!f.save.empty()) ACT_CHECK_OK(SaveCheckpoint(f.save, *executor, position, adapter.levels()));
  if (!f.export_onnx.empty()) ACT_CHECK_OK(Export(*executor, f.export_onnx));

  ACT_TRY(const Device::BytesBeside beside, device.MeasureBeside());
  const RunReport report{
      .executor = executor.get(),
      .result = &result,
      .profile = CollectProfile(executor->BoundTrainGraphs()),
      .profiled = f.profile,
      .device = device.name(),
      .threads = threads,
      .seed = position.seed,
      .hyper = hyper,
      .resident_peak_bytes = ResidentPeakBytes(),
      .beside = beside,
      .staging_bytes = opened.staging_bytes,
      .tuner = tuner.get(),
      .adapt_every = f.adapt_every,
      .adaptations = adapter.history(),
      .adaptation_bytes =
          f.adapt_every > 0 ? CodeSensitivityMeter::BytesOf(plan, executor->layout().batch) : 0};
  if (!f.report_json.empty()) ACT_CHECK_OK(WriteFile(f.report_json, RunReportJson(report)));
  ACT_CHECK_OK(watch.WritePage());
  llvm::outs() << FormatRunReport(report);
  if (f.profile) llvm::outs() << "\n=== Profile ===\n" << FormatProfile(report.profile, result.losses.size());
  return llvm::Error::success();
}

int Main(int argc, char** argv) {
  RunFlags flags;
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
  auto schedule = LearningRateSchedule::Parse(flags.lr_schedule, flags.warmup);
  if (!schedule) {
    PrintError(kTool, schedule.takeError());
    return kWrongUsage;
  }
  llvm::Expected<Tuning> tuning = ReadTuning(flags.tune);
  if (!tuning) {
    PrintError(kTool, tuning.takeError());
    return kWrongUsage;
  }
  llvm::Expected<Plan> plan = ReadRunnable(flags, flags.plan);
  if (!plan) {
    PrintError(kTool, plan.takeError());
    return kFailed;
  }
  llvm::Expected<Hyperparameters> hyper = flags.hyper.Resolve(plan->optimizer, plan->hyper);
  if (!hyper) {
    PrintError(kTool, hyper.takeError());
    return kWrongUsage;
  }
  llvm::Expected<Saving> saving = Saving::Open(flags, *plan);
  if (!saving) {
    PrintError(kTool, saving.takeError());
    return kFailed;
  }
  flags.load = saving->load();
  StopAtSignals(&g_stop);  // the current step is finished and saved
  if (llvm::Error error = Run(flags, *plan, *hyper, *schedule, *tuning, *saving)) {
    PrintError(kTool, std::move(error));
    return kFailed;
  }
  return 0;
}

}  // namespace
}  // namespace act

int main(int argc, char** argv) { return act::RunTool("actrun", argc, argv, act::Main); }
