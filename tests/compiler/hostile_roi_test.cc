// Pools of regions that fit nothing. Each gives one clear error.
#include "tests/compiler/hostile_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Hostile;
using testing::OnnxModel;
using Extents = std::vector<testing::Extent>;

OnnxModel Pooled(const Extents& image, const Extents& regions, const Extents& of,
                 const std::vector<onnx::AttributeProto>& attrs = {}) {
  OnnxModel m;
  m.Input("x", image).Input("regions", regions).Input("of", of, onnx::TensorProto::INT64);
  return m.Node("RoiAlign", {"x", "regions", "of"}, {"n"}, attrs).MeanLoss("n");
}

const Hostile kHostile[] = {
    {"regions_of_five_numbers",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 5}, {7});
     },
     "cannot pool regions f32[7,5]"},
    {"fewer_images_than_regions",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 4}, {6});
     },
     "of images i64[6]"},
    {"image_of_one_axis",
     [] {
       return Pooled({"N", 4, 6}, {7, 4}, {7});
     },
     "cannot pool regions"},
    {"no_bins",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 4}, {7}, {Attr("output_height", int64_t{0})});
     },
     "cannot pool regions"},
    {"fewer_samples_than_none",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 4}, {7}, {Attr("sampling_ratio", int64_t{-2})});
     },
     "cannot pool regions"},
    {"greatest_of_samples",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 4}, {7}, {Attr("mode", std::string("max"))});
     },
     "mode 'max' is not supported"},
    {"pixels_of_no_kind",
     [] {
       return Pooled({"N", 4, 6, 6}, {7, 4}, {7},
                     {Attr("coordinate_transformation_mode", std::string("corners"))});
     },
     "coordinate_transformation_mode 'corners' is not supported"},
};

class HostileRoiAlign : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileRoiAlign, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileRoiAlign, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace act
