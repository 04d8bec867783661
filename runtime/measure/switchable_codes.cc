#include "runtime/measure/switchable_codes.h"

#include <map>
#include <optional>
#include <set>

#include "runtime/base/error.h"
#include "runtime/plan/runtime_op.h"
#include "runtime/plan/swap.h"

namespace act {
namespace {

// Whether the loop decodes numbers from its operand i that are not exact. Codes of frozen weights count as exact: they
// are the same in every step, and part of the model.
bool DecodesLossily(const Graph& graph, const Node& node, size_t i) {
  const ProgramInput& input = node.program.inputs[i];
  return !input.codec.IsExact() && !input.mask && !graph.value(node.inputs[i]).coded;
}

ProgramOutput Store(int32_t reg) {
  ProgramOutput output;
  output.kind = OutputKind::kStore;
  output.reg = reg;
  return output;
}

class Rewriter {
 public:
  explicit Rewriter(const Plan& plan) {
    result_.plan = plan;
    result_.plan.eval = {};
    // The added nodes would move the loops over samples. Without loops the gradient is the same.
    result_.plan.train.graph.loops.clear();
    // Swaps are removed too: a code's exact values are on the device.
    RemoveSwaps(result_.plan.train);
    result_.saved_edges = plan.edges.size();
    for (size_t e = 0; e < plan.edges.size(); ++e)
      if (plan.edges[e].stored != kNoValue) edge_of_[plan.edges[e].stored] = e;
  }

  llvm::Expected<SwitchablePlan> Run() {
    for (const SavedEdge& edge : result_.plan.edges)
      if (edge.form.starts_with("fixed"))
        return MakeError("edge '" + edge.name + "'",
                         "is rounded by operators of the step, which cannot be switched off",
                         "its error is the same at every step: compare gradients with those of L0, by "
                         "--dump-step");
    ACT_CHECK_OK(FindDecoded());
    std::vector<Node> nodes = std::move(graph().nodes);
    graph().nodes.clear();
    for (Node& node : nodes) {
      if (node.attrs.Int("may_round") != 0) {
        node.attrs.Set("may_round", int64_t{0});
        ++result_.rounded_products;
      }
      ReadExactValues(node);
      StoreExactValues(node);
      graph().nodes.push_back(std::move(node));
      for (const RoundTrip& trip : made_) Append(trip);
      made_.clear();
    }
    return std::move(result_);
  }

 private:
  // The exact values of a code, stored outside of it.
  struct Exact {
    ValueId value = kNoValue;  // f32, after the round trip
    Dims dims;
  };
  struct RoundTrip {
    ValueId code, unrounded;
    Codec codec;
    int32_t stream;
    Dims space;
  };

  Graph& graph() { return result_.plan.train.graph; }

  // Finds the codes that are decoded. A code that is read only as a mask has no error.
  llvm::Error FindDecoded() {
    for (const Node& node : graph().nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!RunsProgram(node)) {
          if (coded_.count(node.inputs[i]))
            return MakeError("node '" + node.name + "' (" + node.op + ")",
                             "reads a code itself: its exact values cannot be given to it");
          continue;
        }
        if (i < node.program.inputs.size() && DecodesLossily(graph(), node, i))
          decoded_.insert(node.inputs[i]);
      }
      for (size_t o = 0; o < node.program.outputs.size(); ++o) {
        const ProgramOutput& output = node.program.outputs[o];
        if (output.kind != OutputKind::kEncode || output.codec.IsExact()) continue;
        coded_.insert(node.outputs[o]);
        if (node.phase != Phase::kForward) ListRerun(node, o);
      }
    }
    for (const ValueId code : decoded_)
      if (!coded_.count(code) || !edge_of_.count(code))
        return MakeError("value '" + graph().value(code).name + "'",
                         "is decoded, but is no code that the report lists", "compile the model again");
    return llvm::Error::success();
  }

  // A code that the backward pass makes for itself is not a saved activation. The step's report
  // does not list it, but the measurement does.
  void ListRerun(const Node& node, size_t output) {
    const ValueId code = node.outputs[output];
    if (edge_of_.count(code)) return;
    SavedEdge edge;
    edge.name = node.name + " (recomputed)";
    edge.stored = code;
    edge.form = ToString(node.program.outputs[output].codec);
    edge.bits = BitsPerElement(node.program.outputs[output].codec);
    edge.bytes = graph().value(code).type.Bytes();
    edge_of_[code] = result_.plan.edges.size();
    result_.plan.edges.push_back(std::move(edge));
  }

  // Puts the value into the storage of `in`, or into a new storage.
  ValueId AddValue(const TensorType& type, const std::string& name, ValueId in = kNoValue) {
    StepGraph& step = result_.plan.train;
    Value value;
    value.name = name;
    value.type = type;
    step.graph.values.push_back(std::move(value));
    step.storage_of.push_back(in == kNoValue ? step.storages++ : step.storage_of[static_cast<size_t>(in)]);
    return static_cast<ValueId>(step.graph.values.size() - 1);
  }

  void ReadExactValues(Node& node) {
    for (size_t i = 0; i < node.program.inputs.size(); ++i) {
      if (!DecodesLossily(graph(), node, i)) continue;
      const Exact& exact = exact_.at(node.inputs[i]);
      node.program.inputs[i] = ProgramInput{};
      node.inputs[i] = exact.dims == node.program.space ? exact.value : Reshaped(exact, node);
    }
  }

  ValueId Reshaped(const Exact& exact, const Node& reader) {
    const ValueId view =
        AddValue({DType::kFloat32, reader.program.space}, graph().value(exact.value).name, exact.value);
    Node node;
    node.op = kReshape;
    node.name = reader.name + ".reshape";
    node.inputs = {exact.value};
    node.outputs = {view};
    node.phase = reader.phase;
    graph().nodes.push_back(std::move(node));
    return view;
  }

  void StoreExactValues(Node& node) {
    const size_t results = node.outputs.size();
    for (size_t o = 0; o < results && o < node.program.outputs.size(); ++o) {
      const ProgramOutput output = node.program.outputs[o];
      const ValueId code = node.outputs[o];
      if (output.kind != OutputKind::kEncode || !decoded_.count(code)) continue;
      const Dims& space = node.program.space;
      const ValueId unrounded = AddValue({DType::kFloat32, space}, graph().value(code).name + ".unrounded");
      const auto behind = static_cast<std::ptrdiff_t>(node.outputs.size());
      node.program.outputs.insert(node.program.outputs.begin() + behind, Store(output.reg));
      node.outputs.push_back(unrounded);
      made_.push_back({code, unrounded, output.codec, output.stream, space});
    }
  }

  // The new node reads the unrounded values too, so that its result may take their place.
  void Append(const RoundTrip& trip) {
    const std::string name = graph().value(trip.code).name;
    Node node;
    node.op = kFused;
    node.name = name + ".round_trip";
    node.inputs = {trip.code, trip.unrounded};
    node.program.space = trip.space;
    node.program.inputs.resize(2);
    node.program.inputs[0].codec = trip.codec;
    node.program.inputs[0].stream = trip.stream;
    node.program.outputs = {Store(0)};
    const ValueId value = AddValue({DType::kFloat32, trip.space}, name + ".decoded", trip.unrounded);
    node.outputs = {value};
    exact_[trip.code] = {value, trip.space};
    Dim elements(1);
    for (const Dim& d : trip.space) elements = elements * d;
    result_.codes.push_back({.edge = edge_of_.at(trip.code),
                             .node = graph().nodes.size(),
                             .codec = trip.codec,
                             .elements = elements});
    graph().nodes.push_back(std::move(node));
  }

  SwitchablePlan result_;
  std::map<ValueId, size_t> edge_of_;  // of a code, in Plan::edges
  std::set<ValueId> coded_, decoded_;  // lossy codes that are made; that are read as numbers
  std::map<ValueId, Exact> exact_;     // by code
  std::vector<RoundTrip> made_;        // by the current node
};

}  // namespace

llvm::Expected<SwitchablePlan> MakeCodesSwitchable(const Plan& plan) { return Rewriter(plan).Run(); }

}  // namespace act
