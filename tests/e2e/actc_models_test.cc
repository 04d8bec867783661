// Models that actc refuses: what the error names, and that no plan is left.
#include <gtest/gtest.h>

#include "tests/e2e/actc_command.h"
#include "tests/e2e/onnx_models.h"
#include "tests/e2e/refusal.h"
#include "tests/e2e/tensors.h"
#include "tests/paths.h"

namespace act::e2e {
namespace {

class ActcModels : public ActcCommand {};

TEST_F(ActcModels, NamesWhatAFileIsInsteadOfAModel) {
  ExpectRefused(Command(Write("")), {"model.onnx"});
  ExpectRefused(Command(Write("import torch\n\nmodel = torch.nn.Linear(4, 3)\n")), {"model.onnx"});
  ExpectRefused(Command(Write(std::string(4096, '\0'))), {"model.onnx"});
  ExpectRefused(Command(scratch_.path()), {scratch_.path()});
  ExpectNoPlan();
}

TEST_F(ActcModels, NamesAPlanForWhatItIs) {
  const std::string model = Write(Classifier().Bytes());
  ExpectDone(Command(model));
  ExpectRefused({ToolPath("actc"), plan(), "-O", "L0", "-o", scratch_ / "other.bin"},
                {"plan.bin", "a plan, not an ONNX model"});
  EXPECT_FALSE(Exists(scratch_ / "other.bin"));
}

TEST_F(ActcModels, RefusesATruncatedModel) {
  const std::string whole = ReadFile(GoldenFolder() + "/lenet/model.onnx");
  ASSERT_GT(whole.size(), 1000u);
  for (const size_t bytes : {whole.size() / 3, whole.size() - 1}) {
    ExpectRefused(Command(Write(whole.substr(0, bytes))), {"model.onnx"});
  }
  ExpectNoPlan();
}

TEST_F(ActcModels, NamesTheNodeAndTheOperatorThatItDoesNotKnow) {
  const OnnxModel model = Linear().Node("odd_one", "FrobnicateAll", {"logits"}, "loss").Output("loss", {});
  ExpectRefused(Command(Write(model.Bytes())), {"model.onnx", "odd_one", "FrobnicateAll"});
  ExpectNoPlan();
}

TEST_F(ActcModels, NamesTheNodeWhoseShapesDoNotFit) {
  const OnnxModel model = OnnxModel()
                              .Input("image", onnx::TensorProto::FLOAT, {"N", 5})
                              .Weight("weight", {4, 3})
                              .Node("linear", "MatMul", {"image", "weight"}, "y")
                              .Mean("mean", "y", "loss")
                              .Output("loss", {});
  ExpectRefused(Command(Write(model.Bytes())), {"model.onnx", "linear"});
  ExpectNoPlan();
}

TEST_F(ActcModels, NamesTheNodeThatReadsAValueThatNothingMakes) {
  const OnnxModel model =
      OnnxModel().Node("lost", "Relu", {"nowhere"}, "y").Mean("mean", "y", "loss").Output("loss", {});
  ExpectRefused(Command(Write(model.Bytes())), {"model.onnx", "lost", "nowhere"});
  ExpectNoPlan();
}

TEST_F(ActcModels, RefusesInitializersThatTheirBytesDoNotFill) {
  const OnnxModel model = OnnxModel()
                              .Input("image", onnx::TensorProto::FLOAT, {"N", 4})
                              .Weight("weight", {4, 3}, /*elements=*/11)
                              .Node("linear", "MatMul", {"image", "weight"}, "y")
                              .Mean("mean", "y", "loss")
                              .Output("loss", {});
  ExpectRefused(Command(Write(model.Bytes())), {"model.onnx", "weight"});
  ExpectNoPlan();
}

TEST_F(ActcModels, RefusesExtentsThatNoMemoryHolds) {
  const int64_t huge = int64_t{1} << 40;  // its square overflows int64
  const OnnxModel model = OnnxModel()
                              .Input("image", onnx::TensorProto::FLOAT, {"N", huge, huge, 4})
                              .Weight("scale", {4})
                              .Node("scaled", "Mul", {"image", "scale"}, "y")
                              .Mean("mean", "y", "loss")
                              .Output("loss", {});
  ExpectRefused(Command(Write(model.Bytes())), {"model.onnx"});
  ExpectNoPlan();
}

TEST_F(ActcModels, NamesTheMissingWeightsAndTheFlagThatMakesSome) {
  const std::string model = ModelsFolder() + "/zoo/resnet18.onnx";
  const std::string error = ExpectRefused(Command(model), {"resnet18.onnx", "resnet18.onnx.data"});
  EXPECT_NE(error.find("--init=he"), std::string::npos) << error;
  EXPECT_FALSE(Exists(plan()));
  ExpectDone({ToolPath("actc"), model, "-O", "L3"});  // a report needs no weights
}

TEST_F(ActcModels, AsksForALossWhereThereIsNone) {
  const std::string model = Write(Linear().Output("logits", {"N", 3}).Bytes());
  const std::string error = ExpectRefused(Command(model), {"model.onnx", "loss"});
  EXPECT_NE(error.find("--loss="), std::string::npos) << error;
  ExpectNoPlan();
  ExpectDone(Command(model, {"--loss=cross-entropy"}));
}

TEST_F(ActcModels, AsksWhichOfSeveralLosses) {
  const std::string model =
      Write(Classifier().Mean("mean", "logits", "average").Output("average", {}).Bytes());
  const std::string error = ExpectRefused(Command(model), {"model.onnx", "loss", "average"});
  EXPECT_NE(error.find("--loss-output="), std::string::npos) << error;
  ExpectRefused(Command(model, {"--loss-output=absent"}), {"absent"});
  ExpectNoPlan();
  ExpectDone(Command(model, {"--loss-output=average"}));
}

}  // namespace
}  // namespace act::e2e
