// Every loss and its gradient, in each form, against PyTorch's numbers in float64
// (tests/data/losses/make.py). The forms are those of --loss, ONNX's two operators with class
// weights, ignored labels and reductions, and losses that a model spells out.
#include <llvm/Support/JSON.h>

#include <numeric>

#include "compiler/import/import_onnx.h"
#include "runtime/data/safetensors.h"
#include "tests/compiler/compiled_step.h"
#include "tests/compiler/onnx_model.h"
#include "tests/paths.h"

namespace act {
namespace {

using testing::Attr;
using testing::OnnxModel;
using testing::TemporaryFolder;
using testing_step::Take;

const std::string kFolder = TestDataFolder() + "/losses/";

// A loss is a sum of up to a few hundred float32 terms, each with a few roundings of 6e-8. The
// limit is relative to the largest element of the gradient, or to the loss. Wrong weights or counts
// are off by 1e-2 and more.
constexpr double kLimit = 2e-6;

const Safetensors& Numbers() {
  static const Safetensors numbers = Take(Safetensors::Open(kFolder + "numbers.safetensors"));
  return numbers;
}

const llvm::json::Array& Cases() {
  static const llvm::json::Value value = Take(llvm::json::parse(testing::Contents(kFolder + "cases.json")));
  return *value.getAsArray();
}

std::vector<float> Floats(const HostView& view) {
  std::vector<float> values(static_cast<size_t>(view.bytes) / sizeof(float));
  std::memcpy(values.data(), view.data, static_cast<size_t>(view.bytes));
  return values;
}

class LossCase {
 public:
  explicit LossCase(const llvm::json::Object& object) : object_(object) {}

  std::string Text(const char* key) const { return object_.getString(key).value_or("").str(); }
  std::string name() const { return Text("name"); }
  const HostView* Find(const char* what) const { return Numbers().Find(name() + "/" + what); }
  std::vector<float> Values(const char* what) const { return Floats(*Find(what)); }

  // x is the model's only parameter. Its inputs are label and, with reduction `none`, mix.
  ImportResult Import() const {
    if (Text("form") == "file") return Take(ImportOnnx(kFolder + Text("file"), {}));
    OnnxModel m;
    ImportOptions options;
    Initializer(m, "x");
    if (Text("form") == "flag") {
      options.loss = Text("kind");
      // The predictions are a node's result and have the parameter's dims.
      m.Node("Neg", {"x"}, {"negative"}).Node("Neg", {"negative"}, {"predictions"});
      m.Output("predictions", Extents("x"));
    } else {
      Operator(m);
    }
    const TemporaryFolder folder;
    return Take(ImportOnnx(m.Write(folder), options));
  }

 private:
  std::vector<testing::Extent> Extents(const char* what) const {
    return {Find(what)->dims.begin(), Find(what)->dims.end()};
  }

  void Initializer(OnnxModel& m, const char* what) const {
    m.Weight(what, Find(what)->dims);
    auto& tensor = *m.graph().mutable_initializer(m.graph().initializer_size() - 1);
    tensor.set_raw_data(Find(what)->data, static_cast<size_t>(Find(what)->bytes));
  }

  void Operator(OnnxModel& m) const {
    m.Input("label", Extents("label"), onnx::TensorProto::INT64);
    std::vector<std::string> inputs{"x", "label"};
    if (Find("weight")) {
      Initializer(m, "weight");
      inputs.push_back("weight");
      m.Node("Constant", {}, {"unused"}, {Attr("value_int", int64_t{0})});
    }
    std::vector<onnx::AttributeProto> attrs{Attr("reduction", Text("reduction"))};
    if (const auto ignore = object_.getInteger("ignore_index"))
      attrs.push_back(Attr("ignore_index", *ignore));
    const bool none = Text("reduction") == "none";
    const std::string result = none ? "each" : "loss";
    if (Text("form") == "log-likelihood") {
      m.Node("LogSoftmax", {"x"}, {"log_p"}, {Attr("axis", int64_t{1})});
      inputs[0] = "log_p";
    }
    m.Node(Text("form") == "log-likelihood" ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", inputs,
           {result}, attrs);
    if (none) {
      m.Input("mix", Extents("mix")).Node("Mul", {"each", "mix"}, {"mixed"});
      m.Node("ReduceSum", {"mixed"}, {"loss"}, {Attr("keepdims", int64_t{0})});
    }
    m.Output("loss");
  }

  const llvm::json::Object& object_;
};

void Check(const LossCase& c, const KernelRegistry& kernels) {
  ImportResult model = c.Import();
  ASSERT_EQ(model.trainable.size(), 1u) << "class weights do not train";
  const Plan plan = Take(Compile(std::move(model), testing_step::Checked("L0", "none")));
  testing_step::StepInputs inputs;
  for (const char* what : {"label", "mix"})
    if (const HostView* view = c.Find(what)) inputs[what] = {view->data, view->data + view->bytes};
  const auto outputs = Take(testing_step::RunStep(plan, kernels, inputs, {.batch = plan.default_batch}));
  ASSERT_EQ(outputs.size(), 2u);
  const double loss = c.Values("loss")[0];
  double scale = 1;  // a sum of signed terms may cancel
  if (c.Find("mix"))
    for (float m : c.Values("mix")) scale += 3 * std::fabs(m);
  EXPECT_NEAR(outputs[0][0], loss, kLimit * std::max(scale, std::fabs(loss)));
  const std::vector<float> gradient = c.Values("grad");
  ASSERT_EQ(outputs[1].size(), gradient.size());
  double largest = 1e-3;
  for (float g : gradient) largest = std::max(largest, std::fabs(static_cast<double>(g)));
  for (size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(outputs[1][i], gradient[i], kLimit * largest) << "gradient " << i;
}

class Losses : public ::testing::TestWithParam<size_t> {};

TEST_P(Losses, AreAndSlopeAsPyTorchs) {
  const LossCase c(*Cases()[GetParam()].getAsObject());
  for (const KernelRegistry* kernels : {&testing_step::CpuKernels(), &testing_step::ReferenceKernels()}) {
    SCOPED_TRACE(c.name() + (kernels == &testing_step::CpuKernels() ? ", CPU" : ", reference"));
    Check(c, *kernels);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Losses, ::testing::Range(size_t{0}, Cases().size()),
                         [](const auto& test_info) {
                           std::string name = LossCase(*Cases()[test_info.param].getAsObject()).name();
                           for (char& ch : name)
                             if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
                           return name;
                         });

}  // namespace
}  // namespace act
