#include "kernels/nvidia/cudnn_convolution.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "kernels/cuda/problem_text.h"
#include "kernels/nvidia/convolution_graph.h"
#include "kernels/nvidia/engine_choice.h"

namespace act::cuda {
namespace {

// Where engines run. Without a card, handle and context are null.
struct Place {
  Descriptor properties{CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR};
  cudnnHandle_t handle = nullptr;
  const CardContext* context = nullptr;
};

// An engine with its settings, for one graph. Shared by equal convolutions.
struct Plan {
  Descriptor plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::vector<Descriptor> keeps;      // what it was made of
  std::shared_ptr<Descriptor> graph;  // so too; plans that were found together share it
  EngineChoice choice;
  std::string name;
  bool uses_tensor_cores = false;
  int64_t workspace_bytes = 0;
};

using Notes = std::vector<cudnnBackendNumericalNote_t>;

Notes NotesOf(const Descriptor& engine) {
  return engine.Get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

// Whether an engine may be used: the same bits at every run, operands as they are. Strictly, products and
// sums are those of float32: without tensor cores, and without the large tiles of Winograd's method, whose
// errors are many times those of a sum.
bool IsAllowed(const Notes& notes, FloatMath math) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return math == FloatMath::kStrict;
      default:
        return false;
    }
  });
}

constexpr std::pair<cudnnBackendNumericalNote_t, const char*> kNoteWords[] = {
    {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, "tensor cores"},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD, "Winograd"},
    {CUDNN_NUMERICAL_NOTE_FFT, "FFT"},
    {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, "not deterministic"}};

// "cudnn engine 34, tensor cores, k24=17 k6=2".
std::string NameOf(const EngineChoice& choice, const Notes& notes) {
  const std::string text = choice.Text();
  const size_t space = text.find(' ');
  std::string name = "cudnn engine " + text.substr(0, space);
  for (const cudnnBackendNumericalNote_t note : notes)
    for (const auto& [named, words] : kNoteWords)
      if (note == named) name += std::string(", ") + words;
  return space == std::string::npos ? name : name + "," + text.substr(space);
}

// What the search has refused, for its message.
struct Refusals {
  int arithmetic = 0, loops = 0, unsupported = 0, workspace = 0;
  int64_t least_workspace = INT64_MAX;
};

// Engine 0 is a plain loop. For 59 GFLOP an H100 takes 118 ms by it for a forward pass or the gradient of x, and
// 300 to 1,300 ms for that of w, where others take 3 ms. cuDNN names it first, or alone, where float32 is to use
// no tensor cores. Our tiles take 5 ms for the forward pass, and 21 ms for the gradient of x.
constexpr int64_t kPlainLoop = 0;

// Engine 1 of cuDNN 9.19 says that it takes unequal pads, and then computes another gradient of the weights (seen
// on an H200 by CudaConv.GradWeightAgrees). So none is asked for that: our tiles take it.
bool IsComputedWrongly(const ConvolutionProblem& problem, std::string* why) {
  if (problem.direction != ConvolutionDirection::kWeightGradient || problem.pads_begin == problem.pads_end)
    return false;
  *why = "cuDNN's gradient of the weights is wrong where pads differ at the two ends";
  return true;
}

// The plan of a configuration if it is allowed, possible and small enough, otherwise null.
std::shared_ptr<Plan> PlanOf(const Place& place, Descriptor config, const ConvolutionProblem& problem,
                             int64_t limit, Refusals* refusals) {
  std::vector<Descriptor> engines =
      config.GetParts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const Notes notes = engines.empty() ? Notes() : NotesOf(engines[0]);
  if (engines.empty() || !IsAllowed(notes, problem.math)) {
    ++refusals->arithmetic;
    return nullptr;
  }
  EngineChoice choice = EngineChoice::Of(engines[0], config);
  if (choice.engine == kPlainLoop) {
    ++refusals->loops;
    return nullptr;
  }
  auto plan = std::make_shared<Plan>();
  plan->plan.Reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .Reference(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, place.properties);
  const auto bytes =
      plan->plan.Finalize().empty()
          ? plan->plan.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1)
          : std::vector<int64_t>();
  if (bytes.empty()) {
    ++refusals->unsupported;
    return nullptr;
  }
  plan->workspace_bytes = bytes[0];
  if (plan->workspace_bytes > limit) {
    ++refusals->workspace;
    refusals->least_workspace = std::min(refusals->least_workspace, plan->workspace_bytes);
    return nullptr;
  }
  plan->choice = std::move(choice);
  plan->uses_tensor_cores = std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
  plan->name = NameOf(plan->choice, notes);
  plan->keeps = std::move(engines);
  plan->keeps.push_back(std::move(config));
  return plan;
}

// The plan of a choice that has been made before, if Search might make it now.
std::shared_ptr<Plan> Remake(const Place& place, const ConvolutionProblem& problem, int64_t limit,
                             const EngineChoice& choice, std::string* why) {
  auto graph = std::make_shared<Descriptor>(ConvolutionGraph(problem));
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR), config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  *why = graph->error();
  if (why->empty())
    *why = engine.Reference(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, *graph)
               .Reference(CUDNN_ATTR_ENGINE_DEVICEPROP, place.properties)
               .Int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine)
               .Finalize();
  if (why->empty()) {
    config.Part(CUDNN_ATTR_ENGINECFG_ENGINE, std::move(engine));
    choice.SetKnobs(&config);
    *why = config.Finalize();
  }
  if (!why->empty()) return nullptr;
  Refusals refusals;
  auto plan = PlanOf(place, std::move(config), problem, limit, &refusals);
  if (plan) {
    plan->graph = std::move(graph);
    return plan;
  }
  *why = refusals.arithmetic || refusals.loops ? "it computes otherwise"
         : refusals.unsupported
             ? "it does not take the shape"
             : "it needs " + std::to_string(refusals.least_workspace) + " bytes of workspace";
  return nullptr;
}

// At most `most` plans, each engine with its settings once.
std::vector<std::shared_ptr<Plan>> Search(const Place& place, const ConvolutionProblem& problem,
                                          int64_t limit, size_t most, std::string* why) {
  std::vector<std::shared_ptr<Plan>> plans;
  auto graph = std::make_shared<Descriptor>(ConvolutionGraph(problem));
  if (!graph->error().empty()) {
    *why = "cuDNN has no such convolution: " + graph->error();
    return plans;
  }
  Refusals refusals;
  std::set<std::string> choices;
  // The fastest first by cuDNN's estimates: mode A's are quick to make, mode B's are better, and the
  // fallback's engines take any size, most without workspace.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.Reference(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph)
        .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode)
        .Reference(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, place.properties);
    if (!heuristics.Finalize().empty()) continue;
    for (Descriptor& config :
         heuristics.GetParts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
      if (plans.size() == most) return plans;
      auto plan = PlanOf(place, std::move(config), problem, limit, &refusals);
      if (!plan || !choices.insert(plan->choice.Text()).second) continue;
      plan->graph = graph;
      plans.push_back(std::move(plan));
    }
  }
  if (plans.empty())
    *why = "cuDNN has no deterministic engine within " + std::to_string(limit) + " bytes of workspace (" +
           std::to_string(refusals.arithmetic) + " compute otherwise, " + std::to_string(refusals.loops) +
           " are plain loops, " + std::to_string(refusals.unsupported) + " do not take the shape, " +
           std::to_string(refusals.workspace) + " need more workspace" +
           (refusals.workspace ? ", the least " + std::to_string(refusals.least_workspace) : "") + ")";
  return plans;
}

class Convolution : public LibraryCall {
 public:
  Convolution(const Place& place, std::shared_ptr<Plan> plan, int64_t alignment)
      : place_(place), plan_(std::move(plan)), alignment_(alignment) {}
  int64_t workspace_bytes() const override { return plan_->workspace_bytes; }
  bool uses_tensor_cores() const override { return plan_->uses_tensor_cores; }
  std::string engine() const override { return plan_->name; }
  std::vector<std::byte> Serialize() const override {
    const std::string text = plan_->choice.Text();
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  Status Enqueue(Stream* stream, std::byte* const operands[4], std::byte* workspace) override {
    if (!place_.handle) return "a convolution cannot run on a card that is only described";
    for (int i = 0; i < 3; ++i)
      if (reinterpret_cast<uintptr_t>(operands[i]) % alignment_)
        return "an operand of a convolution is not aligned to " + std::to_string(alignment_) + " bytes";
    Status status = place_.context->Bind();
    if (!status.empty()) return status;
    const void* pointers[] = {operands[0], operands[1], operands[2]};
    Descriptor operands_of_run(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    operands_of_run.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers)
        .Int64s(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kConvolutionTensors)
        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    status = operands_of_run.Finalize();
    if (status.empty())
      status = CheckCudnn(cudnnSetStream(place_.handle, reinterpret_cast<cudaStream_t>(StreamOf(stream))),
                          "cudnnSetStream");
    if (!status.empty()) return status;
    return CheckCudnn(cudnnBackendExecute(place_.handle, plan_->plan.handle(), operands_of_run.handle()),
                      "cudnnBackendExecute of " + plan_->name);
  }

 private:
  const Place& place_;
  const std::shared_ptr<Plan> plan_;
  const int64_t alignment_;
};

class CudnnLibrary : public ConvolutionLibrary {
 public:
  explicit CudnnLibrary(const Card& card) : key_(KeyOf(card)) {}
  ~CudnnLibrary() override {
    if (place.handle) cudnnDestroy(place.handle);
  }

  std::vector<std::unique_ptr<LibraryCall>> Find(const ConvolutionProblem& problem, int64_t limit,
                                                 size_t most, std::string* why) override {
    if (IsComputedWrongly(problem, why)) return {};
    const std::lock_guard lock(mutex_);
    Found& found = found_[TextOf(problem, limit)];
    if (found.searched < most) {
      found.plans = Search(place, problem, limit, most, &found.why);
      found.searched = most;
    }
    if (found.plans.empty()) *why = found.why;
    std::vector<std::unique_ptr<LibraryCall>> calls;
    for (size_t i = 0; i < std::min(most, found.plans.size()); ++i)
      calls.push_back(std::make_unique<Convolution>(place, found.plans[i], problem.alignment));
    return calls;
  }

  std::string Key() const override { return key_; }

  std::unique_ptr<LibraryCall> Load(const ConvolutionProblem& problem, int64_t limit,
                                    std::span<const std::byte> engine, std::string* why) override {
    if (IsComputedWrongly(problem, why)) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto choice = EngineChoice::Parse({reinterpret_cast<const char*>(engine.data()), engine.size()});
    if (!choice) *why = "what is written is no engine of cuDNN";
    std::shared_ptr<Plan>& plan = loaded_[TextOf(problem, limit) + (choice ? choice->Text() : "")];
    if (choice && !plan) plan = Remake(place, problem, limit, *choice, why);
    return choice && plan ? std::make_unique<Convolution>(place, plan, problem.alignment) : nullptr;
  }

  Place place;

 private:
  // Heuristics look at more of a card than this, but plans of one kind run on all cards of it.
  static std::string KeyOf(const Card& card) {
    const size_t version = cudnnGetVersion();
    return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100) + " on compute capability " +
           std::to_string(card.compute_capability / 10) + "." + std::to_string(card.compute_capability % 10) +
           " with " + std::to_string(card.multiprocessors) + " multiprocessors";
  }

  struct Found {
    std::vector<std::shared_ptr<Plan>> plans;
    size_t searched = 0;  // so many were asked for
    std::string why;      // if there is none
  };
  const std::string key_;
  std::mutex mutex_;
  std::map<std::string, Found> found_;                   // by problem and bound
  std::map<std::string, std::shared_ptr<Plan>> loaded_;  // by these and the engine
};

}  // namespace

std::unique_ptr<ConvolutionLibrary> OpenCudnn(const CardContext& context, const Card& card, Status* error) {
  auto library = std::make_unique<CudnnLibrary>(card);
  Place& place = library->place;
  place.context = &context;
  *error = context.Bind();
  if (error->empty()) *error = CheckCudnn(cudnnCreate(&place.handle), "cudnnCreate");
  if (error->empty()) {
    place.properties.Set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &place.handle);
    *error = place.properties.Finalize();
  }
  return error->empty() ? std::move(library) : nullptr;
}

std::unique_ptr<ConvolutionLibrary> OpenCudnn(const CardDescription& description, Status* error) {
  auto library = std::make_unique<CudnnLibrary>(description.card);
  *error =
      library->place.properties.Text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, description.json).Finalize();
  return error->empty() ? std::move(library) : nullptr;
}

}  // namespace act::cuda
