// Reads what the algorithm of a TrainingInfoProto does, from the graph to which it has been
// appended.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "compiler/import/core/importer.h"
#include "compiler/import/training/training_info.h"
#include "compiler/import/training/training_optimizers.h"

namespace act::onnx_import {
namespace {

bool IsGradient(const onnx::NodeProto& node) {
  return node.domain() == kPreviewTraining && node.op_type() == "Gradient";
}
bool IsStandard(const onnx::NodeProto& node, const char* op, int inputs) {
  return IsStandardDomain(node.domain()) && node.op_type() == op && node.input_size() == inputs &&
         node.output_size() >= 1;
}

class Reader {
 public:
  Reader(const onnx::GraphProto& graph, const onnx::TrainingInfoProto& proto, const std::string& path)
      : graph_(graph), proto_(proto), external_(path) {
    for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
    for (const auto& input : graph.input()) inputs_.insert(input.name());
    for (const auto& node : graph.node())
      for (const std::string& name : node.output())
        if (!name.empty()) producers_[name] = &node;
  }

  llvm::Expected<TrainingInfo> Read() {
    for (const auto& binding : proto_.update_binding()) {
      if (!initializers_.count(binding.key()))
        return MakeError(Place(binding.key()), "the model has no such initializer");
      if (!bindings_.emplace(binding.key(), binding.value()).second)
        return MakeError(Place(binding.key()), "there are two; every initializer is updated once");
    }
    for (const auto& node : graph_.node())
      if (IsGradient(node)) ACT_CHECK_OK(ReadGradient(node));
    if (info_.loss.empty())
      return MakeError(
          "training_info", "the algorithm has no Gradient node",
          "the backward pass is derived from it; --loss-output=NAME trains without the algorithm");
    for (const auto& node : graph_.node())
      if (const OptimizerOp* op = FindOptimizerOp(node)) ACT_CHECK_OK(ReadOptimizer(node, *op));
    ACT_CHECK_OK(ReadPlainSteps());
    ACT_CHECK_OK(CheckAllBindings());
    return std::move(info_);
  }

 private:
  static std::string Place(const std::string& name) { return "update of '" + name + "'"; }

  llvm::Error ReadGradient(const onnx::NodeProto& node) {
    const NodeAttributes attrs(node);
    const std::vector<std::string> xs = attrs.Strings("xs"), zs = attrs.Strings("zs");
    const std::string y = attrs.String("y");
    ACT_CHECK_OK(attrs.Check());
    std::vector<std::string> named = xs;
    named.insert(named.end(), zs.begin(), zs.end());
    if (y.empty() || xs.empty()) return MakeError(PlaceOf(node), "needs the attributes y and xs");
    if (!std::equal(named.begin(), named.end(), node.input().begin(), node.input().end()))
      return MakeError(PlaceOf(node), "must read the tensors that xs and zs name, in this order",
                       "a gradient elsewhere than where the model stands is not supported");
    if (node.output_size() > static_cast<int>(xs.size()))
      return MakeError(PlaceOf(node), "has more outputs than xs");
    if (!info_.loss.empty() && info_.loss != y)
      return MakeError(PlaceOf(node), "is of '" + y + "', another one of '" + info_.loss + "'",
                       "a plan has one loss");
    info_.loss = y;
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty()) gradient_of_[node.output(i)] = xs[static_cast<size_t>(i)];
    return llvm::Error::success();
  }

  llvm::Error ReadOptimizer(const onnx::NodeProto& node, const OptimizerOp& op) {
    const int group = 2 + op.states;
    const int count = (node.input_size() - 2) / group;
    if (count < 1 || node.input_size() != 2 + count * group || node.output_size() != count * (1 + op.states))
      return MakeError(PlaceOf(node), "has " + std::to_string(node.input_size()) + " inputs and " +
                                          std::to_string(node.output_size()) +
                                          " outputs; it takes R, T and for each parameter " +
                                          std::to_string(group) + ", and makes " +
                                          std::to_string(1 + op.states));
    ACT_TRY(ModelOptimizer optimizer, op.Read(node));
    ACT_CHECK_OK(ReadRate(node.input(0), PlaceOf(node), optimizer));
    ACT_CHECK_OK(ReadCount(node, optimizer));
    for (int i = 0; i < count; ++i) {
      const auto in = [&](int k) { return node.input(2 + k * count + i); };
      const auto out = [&](int k) { return node.output(k * count + i); };
      ACT_CHECK_OK(Train(in(0), in(1), out(0), PlaceOf(node)));
      for (int s = 0; s < op.states; ++s) ACT_CHECK_OK(ReadState(node, in(2 + s), out(1 + s), optimizer));
    }
    return Choose(std::move(optimizer), PlaceOf(node));
  }

  // The parameter is an initializer, moved by the gradient of the loss with respect to it.
  llvm::Error Train(const std::string& parameter, const std::string& gradient, const std::string& result,
                    const std::string& place) {
    const auto of = gradient_of_.find(gradient);
    if (of == gradient_of_.end() || of->second != parameter)
      return MakeError(place, "'" + gradient + "' is not what a Gradient node makes for '" + parameter + "'",
                       "gradients go from the Gradient node to the optimizer as they are");
    if (!initializers_.count(parameter))
      return MakeError(place, "updates '" + parameter + "', which is no initializer");
    const auto binding = bindings_.find(parameter);
    if (binding == bindings_.end() || binding->second != result)
      return MakeError(place, "update_binding does not assign its result to '" + parameter + "'");
    if (!info_.parameters.insert(parameter).second)
      return MakeError(place, "updates '" + parameter + "', as another node does");
    done_.insert(parameter);
    return llvm::Error::success();
  }

  // The number that fills a stored tensor (an initializer or a Constant); nullopt where the name
  // has no such tensor.
  std::optional<double> Number(const std::string& name) {
    const auto made = producers_.find(name);
    const auto stored = initializers_.find(name);
    const onnx::TensorProto* tensor = stored != initializers_.end() ? stored->second
                                      : made != producers_.end()
                                          ? NodeAttributes(*made->second).Tensor("value")
                                          : nullptr;
    if (!tensor) return std::nullopt;
    auto number = FilledBy(*tensor);
    if (!number) return llvm::consumeError(number.takeError()), std::nullopt;
    return *number;
  }

  llvm::Expected<std::optional<double>> FilledBy(const onnx::TensorProto& tensor) {
    ACT_TRY(const TensorType type, TypeOf(tensor));
    HostTensor data;
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
      ACT_TRY(data, external_.Read(tensor, type.Bytes().fixed, false));
    } else if (tensor.has_raw_data()) {  // states are as large as parameters: no copy
      const std::string& raw = tensor.raw_data();
      data = {nullptr, reinterpret_cast<const std::byte*>(raw.data()), static_cast<int64_t>(raw.size())};
    } else {
      onnx::TensorProto copy = tensor;
      ACT_TRY(data, TakeData(copy, type, external_, false));
    }
    const auto size = static_cast<size_t>(ByteSize(type.dtype)), bytes = static_cast<size_t>(data.bytes);
    if (data.bytes != type.Bytes().fixed || bytes == 0) return std::nullopt;
    for (size_t at = size; at < bytes; at += size)
      if (std::memcmp(data.data, data.data + at, size) != 0) return std::nullopt;
    ACT_TRY(const Known first, ToKnown({type.dtype, {}}, data));
    const Element& element = first.elements[0];
    return IsFloat(type.dtype) ? ShortestDecimal(static_cast<float>(element.real))
                               : static_cast<double>(element.integer.fixed);
  }

  llvm::Error ReadRate(const std::string& name, const std::string& place, ModelOptimizer& optimizer) {
    if (inputs_.count(name) && !initializers_.count(name)) {
      info_.set_by_flag.insert(name);  // --lr
      return llvm::Error::success();
    }
    const std::optional<double> rate = Number(name);
    if (!rate || bindings_.count(name))
      return MakeError(place, "the learning rate '" + name + "' is computed",
                       "it must be an input or a constant; actrun --lr-schedule changes it along the run");
    optimizer.hyper["lr"] = *rate;
    return llvm::Error::success();
  }

  // T counts the updates done, so each update must add one.
  llvm::Error ReadCount(const onnx::NodeProto& node, ModelOptimizer& optimizer) {
    const std::string& name = node.input(1);
    double start = 0;
    if (inputs_.count(name) && !initializers_.count(name)) {
      info_.set_by_flag.insert(name);
    } else {
      const std::optional<double> value = Number(name);
      const auto binding = bindings_.find(name);
      if (!value || binding == bindings_.end() || !IsNext(name, binding->second))
        return MakeError(PlaceOf(node), "the count '" + name + "' does not grow by one with each update",
                         "update_binding assigns Add(T, 1) to it, or it is an input");
      done_.insert(name);
      start = *value;
    }
    // Where the count has no effect the optimizer does not take it.
    const bool counts =
        optimizer.name == "adagrad" ? optimizer.hyper["lr-decay"] != 0 : optimizer.name != "sgd";
    if (counts) optimizer.hyper["updates-done"] = start;
    return llvm::Error::success();
  }

  bool IsNext(const std::string& count, const std::string& next) {
    const auto made = producers_.find(next);
    if (made == producers_.end() || !IsStandard(*made->second, "Add", 2)) return false;
    const onnx::NodeProto& add = *made->second;
    const int other = add.input(0) == count ? 1 : 0;
    return add.input(1 - other) == count && Number(add.input(other)) == 1;
  }

  // States start at 0, Adagrad's at one number for all.
  llvm::Error ReadState(const onnx::NodeProto& node, const std::string& name, const std::string& result,
                        ModelOptimizer& optimizer) {
    const auto binding = bindings_.find(name);
    if (binding == bindings_.end() || binding->second != result)
      return MakeError(PlaceOf(node),
                       "update_binding does not assign its result to the state '" + name + "'");
    done_.insert(name);
    const std::optional<double> start = Number(name);
    bool fits = start.has_value();
    if (fits && optimizer.name == "adagrad") {
      fits = optimizer.hyper.emplace("initial-accumulator-value", *start).first->second == *start;
    } else if (fits) {
      fits = *start == 0;
    }
    if (fits) return llvm::Error::success();
    return MakeError(PlaceOf(node),
                     "the state '" + name + "' does not start at 0" +
                         (optimizer.name == "adagrad" ? ", nor all states at one other number" : ""),
                     "the state of a training under way is what actrun --load takes");
  }

  // Updates written as plain arithmetic: P - R * G.
  llvm::Error ReadPlainSteps() {
    for (const auto& [parameter, result] : bindings_) {
      const auto made = producers_.find(result);
      if (done_.count(parameter) || made == producers_.end()) continue;
      const onnx::NodeProto& step = *made->second;
      if (!IsStandard(step, "Sub", 2) || step.input(0) != parameter) continue;
      const auto product = producers_.find(step.input(1));
      if (product == producers_.end() || !IsStandard(*product->second, "Mul", 2)) continue;
      const onnx::NodeProto& mul = *product->second;
      const int gradient = gradient_of_.count(mul.input(0)) ? 0 : 1;
      ModelOptimizer optimizer{.name = "plain-sgd", .hyper = {}};
      ACT_CHECK_OK(ReadRate(mul.input(1 - gradient), PlaceOf(mul), optimizer));
      ACT_CHECK_OK(Train(parameter, mul.input(gradient), result, PlaceOf(step)));
      ACT_CHECK_OK(Choose(std::move(optimizer), PlaceOf(step)));
    }
    return llvm::Error::success();
  }

  llvm::Error Choose(ModelOptimizer optimizer, const std::string& place) {
    if (!info_.optimizer.name.empty() &&
        (info_.optimizer.name != optimizer.name || info_.optimizer.hyper != optimizer.hyper))
      return MakeError(place, "updates parameters in another way than the node before",
                       "a plan has one optimizer for all parameters; --freeze takes some out, and "
                       "--optimizer replaces those of the model");
    info_.optimizer = std::move(optimizer);
    return llvm::Error::success();
  }

  // The remaining bindings may be running statistics, which our BatchNorm updates as ONNX's does.
  llvm::Error CheckAllBindings() {
    for (const auto& node : graph_.node()) {
      if (!IsStandard(node, "BatchNormalization", 5)) continue;
      for (int i = 1; i < std::min(node.output_size(), 3); ++i) {
        const auto binding = bindings_.find(node.input(2 + i));
        if (binding != bindings_.end() && binding->second == node.output(i)) done_.insert(binding->first);
      }
    }
    for (const auto& [name, result] : bindings_)
      if (!done_.count(name))
        return MakeError(
            Place(name), "'" + result + "' is not what an optimizer makes for it",
            "Adam, Momentum, Adagrad (ai.onnx.preview.training) and Sub(P, Mul(R, gradient)) are "
            "optimizers; --loss-output=NAME trains without the algorithm");
    if (info_.parameters.empty()) return MakeError("training_info", "update_binding updates no parameter");
    return llvm::Error::success();
  }

  const onnx::GraphProto& graph_;
  const onnx::TrainingInfoProto& proto_;
  ExternalData external_;
  TrainingInfo info_;
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::set<std::string> inputs_;
  std::map<std::string, const onnx::NodeProto*> producers_;
  std::map<std::string, std::string> bindings_;     // initializer -> what it is assigned
  std::map<std::string, std::string> gradient_of_;  // result of a Gradient -> which of xs
  std::set<std::string> done_;                      // bindings that have been understood
};

}  // namespace

llvm::Expected<TrainingInfo> ReadAlgorithm(const onnx::GraphProto& graph,
                                           const onnx::TrainingInfoProto& proto, const std::string& path) {
  return Reader(graph, proto, path).Read();
}

}  // namespace act::onnx_import
