// What the importer makes of Resize: which axes, which extents, and what it refuses.
#include <gtest/gtest.h>

#include "compiler/import/import_onnx.h"
#include "compiler/ir/verify.h"
#include "tests/compiler/onnx_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Extent;
using testing::OnnxModel;
using testing::TemporaryFolder;

using Ints = std::vector<int64_t>;
using Numbers = std::vector<float>;

struct Form {
  std::vector<Extent> x;
  Numbers scales = {};
  Ints sizes = {};
  std::vector<onnx::AttributeProto> attrs = {};
  Numbers roi = {};
};

OnnxModel Model(const Form& form) {
  OnnxModel m(19);
  const auto numbers = [&m](const std::string& name, const Numbers& values) {
    onnx::AttributeProto floats;
    floats.set_name("value_floats");
    floats.set_type(onnx::AttributeProto::FLOATS);
    for (const float v : values) floats.add_floats(v);
    m.Node("Constant", {}, {name}, {floats});
    return name;
  };
  m.Input("x", form.x);
  std::vector<std::string> inputs{"x", "", "", ""};
  if (!form.roi.empty()) inputs[1] = numbers("roi", form.roi);
  if (!form.scales.empty()) inputs[2] = numbers("scales", form.scales);
  if (!form.sizes.empty()) {
    m.Integers("sizes", form.sizes);
    inputs[3] = "sizes";
  }
  m.Node("Resize", inputs, {"y"}, form.attrs).MeanLoss("y");
  return m;
}

// "Transpose Resize Transpose ReduceMean: f32[N,2,3,4]", the type of the operand of the mean; or the error.
std::string Imported(const OnnxModel& model) {
  const TemporaryFolder folder;
  auto result = ImportOnnx(model.Write(folder), {});
  if (!result) return llvm::toString(result.takeError());
  if (llvm::Error error = Verify(result->graph, Stage::kImported)) return llvm::toString(std::move(error));
  std::string text;
  for (const Node& node : result->graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text + ": " + ToString(result->graph.value(result->graph.nodes.back().inputs[0]).type);
}

TEST(ImportResize, SpatialAxesAreChannelsLastAndOthersStayWhereTheyAre) {
  EXPECT_EQ(Imported(Model({{"N", 3, 4, 5}, {1, 1, 2, 1}})),
            "Transpose Resize Transpose ReduceMean: f32[N,3,8,5]");
  EXPECT_EQ(Imported(Model({{"N", 3, 4}, {1, 2, 1}})), "Resize ReduceMean: f32[N,6,4]");
  EXPECT_EQ(Imported(Model({{"N", 3, 4}, {1, 2, 2}})), "Resize ReduceMean: f32[N,6,8]");
  EXPECT_EQ(Imported(Model({{5, 3}, {2, 1}})), "Resize ReduceMean: f32[10,3]");
  EXPECT_EQ(Imported(Model({{5}, {}, {7}})), "Resize ReduceMean: f32[7]");
  EXPECT_EQ(Imported(Model({{"N", 3, 4, 5}, {1, 1, 1, 1}})), "ReduceMean: f32[N,3,4,5]");
}

TEST(ImportResize, AxesInAnyOrder) {
  EXPECT_EQ(Imported(Model({{"N", 3, 4, 5}, {}, {6, 7}, {Attr("axes", Ints{-1, 2})}})),
            "Transpose Resize Transpose ReduceMean: f32[N,3,7,6]");
  EXPECT_NE(Imported(Model({{"N", 3, 4, 5}, {}, {6, 7}, {Attr("axes", Ints{3, -1})}})).find("an axis twice"),
            std::string::npos);
}

// The float nearest to 0.7 is less, and that to 1/49 too.
TEST(ImportResize, AnExtentIsTheRoundedProductAsInPyTorch) {
  EXPECT_NE(Imported(Model({{"N", 1, 10}, {1, 1, .7f}})).find("f32[N,1,7]"), std::string::npos);
  EXPECT_NE(Imported(Model({{"N", 1, 49}, {1, 1, 1.f / 49}})).find("f32[N,1,1]"), std::string::npos);
  EXPECT_NE(Imported(Model({{"N", 1, 5}, {1, 1, .59f}})).find("f32[N,1,2]"), std::string::npos);
}

TEST(ImportResize, KeepsTheAspectRatio) {
  const auto form = [](const char* policy, Ints sizes) {
    return Imported(
        Model({{"N", 3, 4, 6},
               {},
               std::move(sizes),
               {Attr("axes", Ints{2, 3}), Attr("keep_aspect_ratio_policy", std::string(policy))}}));
  };
  EXPECT_NE(form("not_larger", {7, 8}).find("f32[N,3,5,8]"), std::string::npos);    // 4 * 8 / 6 = 5.33
  EXPECT_NE(form("not_smaller", {7, 8}).find("f32[N,3,7,11]"), std::string::npos);  // 6 * 7 / 4 = 10.5
  EXPECT_NE(form("stretch", {7, 8}).find("f32[N,3,7,8]"), std::string::npos);
  EXPECT_NE(form("shrink", {7, 8}).find("keep_aspect_ratio_policy shrink is not supported"),
            std::string::npos);
}

TEST(ImportResize, CropsByAKnownRegion) {
  const onnx::AttributeProto crop = Attr("coordinate_transformation_mode", std::string("tf_crop_and_resize"));
  // What keeps its extent is still moved.
  EXPECT_EQ(Imported(Model({{"N", 3, 4, 5}, {}, {4, 5}, {crop, Attr("axes", Ints{2, 3})}, {.1f, 0, 1, 1}})),
            "Transpose Resize Transpose ReduceMean: f32[N,3,4,5]");
  EXPECT_EQ(Imported(Model({{"N", 3, 4, 5},
                            {},
                            {4, 5},
                            {crop, Attr("axes", Ints{2, 3}), Attr("extrapolation_value", 9.)},
                            {.1f, 0, 1.5f, 1}})),
            "Sub Transpose Resize Transpose Add ReduceMean: f32[N,3,4,5]");
  EXPECT_NE(Imported(Model({{"N", 3, 4, 5}, {}, {4, 5}, {crop, Attr("axes", Ints{2, 3})}}))
                .find("roi must be known"),
            std::string::npos);
}

// As the node tests of opset 10 and ONNX Runtime do: up where an axis shrinks, down where it grows.
TEST(ImportResize, OpsetTenRoundsByTheDirection) {
  OnnxModel m(10);
  onnx::AttributeProto scales;
  scales.set_name("value_floats");
  scales.set_type(onnx::AttributeProto::FLOATS);
  for (const float v : {1.f, 1.f, .75f, 1.5f}) scales.add_floats(v);
  m.Input("x", {"N", 3, 4, 4}).Node("Constant", {}, {"scales"}, {scales});
  m.Node("Resize", {"x", "scales"}, {"y"}).MeanLoss("y");
  const TemporaryFolder folder;
  auto result = ImportOnnx(m.Write(folder), {});
  ASSERT_TRUE(static_cast<bool>(result));
  std::string resized;
  for (const Node& node : result->graph.nodes)
    if (node.op == "Resize")
      resized += ToString(result->graph.value(node.outputs[0]).type) + " " +
                 node.attrs.String("nearest_mode") + "; ";
  EXPECT_EQ(resized, "f32[N,3,4,3] ceil; f32[N,3,6,3] floor; ");
}

TEST(ImportResize, Refusals) {
  const auto refused = [](const Form& form, const std::string& why) {
    const std::string got = Imported(Model(form));
    EXPECT_NE(got.find(why), std::string::npos) << got;
  };
  refused({{"N", 3, 4}, {2, 1, 1}}, "cannot scale axis 0, of extent N, by 2");
  refused({{"N", 3, 4}, {}, {5, 3, 4}}, "cannot resize axis 0 from N to 5");
  refused({{"N", 3, 4}, {1, 1, -1}}, "cannot scale axis 2");
  refused({{"N", 3, 4}, {1, 2}}, "scales or sizes must have 3 elements");
  refused({{"N", 3, 4}}, "scales or sizes must be known");
  refused({{"N", 3, 4}, {1, 1, 2}, {}, {Attr("mode", std::string("spline"))}},
          "mode spline is not supported");
  refused({{"N", 3, 4}, {1, 1, 2}, {}, {Attr("nearest_mode", std::string("up"))}}, "nearest_mode up");
  refused({{"N", 3, 4}, {1, 1, 2}, {}, {Attr("coordinate_transformation_mode", std::string("pixel"))}},
          "coordinate_transformation_mode pixel is not supported");
}

}  // namespace
}  // namespace act
