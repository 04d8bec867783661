// Which convolutions of plans NVIDIA's library computes on cards, asked without one: for each card and
// arithmetic the number without a deterministic engine within the bound of docs/architecture.md, and the
// largest workspace. Prints Markdown; make cuda-engines writes docs/measurements/cuda_engines.md with it.
//   cuda_engines ROW=PLAN:BATCH...     plans of one row count together; a plan of a fixed batch keeps its own
#include <llvm/Support/FormatVariadic.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "kernels/cuda/conv_parts.h"
#include "kernels/cuda/convolution_problem.h"
#include "kernels/cuda/toolkit.h"
#include "runtime/base/error.h"
#include "runtime/base/size.h"
#include "runtime/plan/plan_io.h"

namespace act::cuda {
namespace {

constexpr const char* kCards[] = {"h200", "a100", "b200"};
constexpr FloatMath kMaths[] = {FloatMath::kStrict, FloatMath::kTf32};
constexpr const char* kMathNames[] = {"float32", "tf32"};
constexpr const char* kDirections[] = {"forward", "input gradient", "weight gradient"};

std::string Dims(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

// "weight gradient, x 256x224x224x3, w 64x7x7x3, strides 2x2".
std::string TextOf(const ConvolutionProblem& p) {
  std::string text =
      std::string(kDirections[static_cast<int>(p.direction)]) + ", x " + Dims(p.x) + ", w " + Dims(p.w);
  const auto add = [&](const char* name, const std::vector<int64_t>& values, int64_t usual) {
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != usual; }))
      text += std::string(", ") + name + " " + Dims(values);
  };
  add("strides", p.strides, 1);
  add("dilations", p.dilations, 1);
  add("pads", p.pads_begin, 0);
  if (p.pads_end != p.pads_begin) text += " to " + Dims(p.pads_end);
  return p.groups > 1 ? text + ", groups " + std::to_string(p.groups) : text;
}

// What a convolution's engine may use beside the weights in its own order: at most twice the operands.
int64_t BoundOf(const ConvolutionProblem& p) {
  return std::min<int64_t>(64 << 20, 2 * 4 * (ElementCount(p.x) + ElementCount(p.w) + ElementCount(p.y)));
}

// As the backend asks for it.
struct Asked {
  ConvolutionProblem problem;
  std::optional<ConvolutionProblem> as_forward;  // of the gradient of x, in float32
};

// The distinct convolutions of a plan, by their text. Depthwise ones are left out: they have kernels of our
// own.
std::map<std::string, Asked> ConvolutionsOf(const Plan& plan, int64_t batch) {
  std::map<std::string, Asked> problems;
  const act::Graph& graph = plan.train.graph;
  const auto view = [&](ValueId id) {
    TensorView tensor;
    for (const Dim& dim : graph.value(id).type.dims) tensor.dims.push_back(dim.At(batch));
    return tensor;
  };
  for (const Node& node : graph.nodes) {
    const bool forward = node.op == "Conv", input = node.op == "ConvGradInput",
               weight = node.op == "ConvGradWeight";
    if (!forward && !input && !weight) continue;
    const TensorView x = view(input ? node.outputs[0] : node.inputs[weight ? 1 : 0]);
    const TensorView w = view(weight ? node.outputs[0] : node.inputs[1]);
    const TensorView y = view(forward ? node.outputs[0] : node.inputs[0]);
    std::string why;
    const auto shape = ConvShapeOf(node.attrs, x, w, y, &why);
    if (!shape || (shape->GroupIn() == 1 && shape->group > 1)) continue;
    const ConvolutionProblem problem = ProblemOf(*shape, forward ? ConvolutionDirection::kForward
                                                         : input ? ConvolutionDirection::kInputGradient
                                                                 : ConvolutionDirection::kWeightGradient);
    problems[TextOf(problem)] = {problem, input ? InputGradientAsForward(*shape) : std::nullopt};
  }
  return problems;
}

// A row of the table: the distinct convolutions of its plans, by their text.
struct Row {
  std::string name;
  std::string batch;
  std::map<std::string, Asked> problems;
};

// Neighbouring arguments of one name make one row.
llvm::Expected<std::vector<Row>> ReadRows(const std::vector<std::string>& arguments) {
  std::vector<Row> rows;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('='), colon = argument.rfind(':');
    if (equals == std::string::npos || colon == std::string::npos || colon < equals)
      return MakeError("argument '" + argument + "'", "is not ROW=PLAN:BATCH");
    const std::string name = argument.substr(0, equals), batch = argument.substr(colon + 1);
    ACT_TRY(const Plan plan, ReadPlan(argument.substr(equals + 1, colon - equals - 1)));
    if (rows.empty() || rows.back().name != name) rows.push_back({name, batch, {}});
    rows.back().problems.merge(
        ConvolutionsOf(plan, plan.fixed_batch ? plan.default_batch : std::stoll(batch)));
  }
  return rows;
}

// A cell: the largest workspace, (how many use no tensor cores for tf32) and **how many have no engine**.
// `exceptions` gets where those have none: convolution -> cards and arithmetics.
std::string Cell(const Row& row, ConvolutionLibrary& library, FloatMath math, const std::string& place,
                 std::map<std::string, std::string>& exceptions) {
  int64_t without = 0, without_tensor_cores = 0, largest_workspace = 0;
  EngineCache engines(library);
  for (const auto& [text, asked] : row.problems) {
    ConvolutionProblem problem =
        math == FloatMath::kStrict && asked.as_forward ? *asked.as_forward : asked.problem;
    problem.math = math;
    std::string why;
    const auto parts = ChooseParts(engines, problem, BoundOf(problem), &why);
    if (!parts.empty()) {
      largest_workspace = std::max(largest_workspace, WorkspaceBytes(parts));
      if (math == FloatMath::kTf32) without_tensor_cores += !UseTensorCores(parts);
    } else {
      ++without;
      exceptions[row.name + ": " + text] += " " + place;
    }
  }
  std::string cell = FormatSize(largest_workspace);
  if (without_tensor_cores) cell += " (" + std::to_string(without_tensor_cores) + ")";
  return without ? cell + " **" + std::to_string(without) + "**" : cell;
}

llvm::Error Run(const std::vector<std::string>& arguments) {
  ACT_TRY(const std::vector<Row> rows, ReadRows(arguments));
  llvm::raw_ostream& out = llvm::outs();
  std::vector<std::unique_ptr<Toolkit>> cards;
  std::string header = "| plan | batch | convolutions |", rule = "|---|---|---|";
  for (const char* name : kCards) {
    ACT_TRY(std::unique_ptr<Toolkit> card, LoadCard(name));
    cards.push_back(std::move(card));
    for (const char* math : kMathNames) header += std::string(" ") + name + " " + math + " |", rule += "---|";
  }
  out << header << "\n" << rule << "\n";
  std::map<std::string, std::string> exceptions;
  for (const Row& row : rows) {
    if (row.problems.empty()) continue;
    out << llvm::formatv("| {0} | {1} | {2} |", row.name, row.batch, row.problems.size());
    for (size_t card = 0; card < cards.size(); ++card)
      for (size_t math = 0; math < std::size(kMaths); ++math)
        out << " "
            << Cell(row, cards[card]->convolutions(), kMaths[math],
                    std::string(kCards[card]) + "/" + kMathNames[math], exceptions)
            << " |";
    out << "\n";
  }
  out << "\n## Convolutions without an engine\n";
  if (exceptions.empty()) out << "None.\n";
  for (const auto& [text, where] : exceptions) out << "* " << text << ":\n " << where << "\n";
  return llvm::Error::success();
}

}  // namespace
}  // namespace act::cuda

int main(int argc, char** argv) {
  if (llvm::Error error = act::cuda::Run({argv + 1, argv + argc})) {
    act::PrintError("cuda_engines", std::move(error));
    return 1;
  }
  return 0;
}
