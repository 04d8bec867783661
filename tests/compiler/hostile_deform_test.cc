// Deformable convolutions that fit nothing. Each gives one clear error.
#include "tests/compiler/hostile_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Hostile;
using testing::OnnxModel;
using Extents = std::vector<testing::Extent>;

// An image [N, 4, 6, 6] and a weight of 3 x 3 taps: 4 x 4 places, if the attributes are the default ones.
OnnxModel Deformed(const Extents& offset, const Extents& mask,
                   const std::vector<onnx::AttributeProto>& attrs = {}) {
  OnnxModel m;
  m.Input("x", {"N", 4, 6, 6}).Weight("w", {2, 4, 3, 3}).Weight("b", {2});
  m.Input("offset", offset).Input("mask", mask);
  return m.Node("DeformConv", {"x", "w", "offset", "b", "mask"}, {"n"}, attrs).MeanLoss("n");
}

const Hostile kHostile[] = {
    {"offsets_of_fewer_taps",
     [] {
       return Deformed({"N", 9, 4, 4}, {"N", 9, 4, 4});
     },
     "offsets f32[N,9,4,4] do not fit 4 x 4 places of 9 taps"},
    {"offsets_of_other_places",
     [] {
       return Deformed({"N", 18, 6, 6}, {"N", 9, 6, 6});
     },
     "do not fit 4 x 4 places of 9 taps"},
    {"offsets_of_no_places",
     [] {
       return Deformed({"N", 18, 0, 0}, {"N", 9, 0, 0}, {Attr("dilations", std::vector<int64_t>{3, 3})});
     },
     "do not fit 0 x 0 places of 9 taps"},
    {"offsets_of_no_part",
     [] {
       return Deformed({"N", 18, 4, 4}, {"N", 9, 4, 4}, {Attr("offset_group", int64_t{0})});
     },
     "cannot be cut into offset_group = 0 parts"},
    {"offsets_of_uneven_parts",
     [] {
       return Deformed({"N", 54, 4, 4}, {"N", 27, 4, 4}, {Attr("offset_group", int64_t{3})});
     },
     "cannot be cut into offset_group = 3 parts"},
    {"mask_of_other_taps",
     [] {
       return Deformed({"N", 18, 4, 4}, {"N", 18, 4, 4});
     },
     "the mask f32[N,18,4,4] does not fit the offsets f32[N,18,4,4]"},
    {"too_many_places",
     [] {
       const std::vector<int64_t> wide(4, int64_t{1} << 30);
       return Deformed({"N", 18, 4, 4}, {"N", 9, 4, 4}, {Attr("pads", wide)});
     },
     "more than 2^24 are not supported"},
    {"image_of_one_axis",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 4, 6}).Weight("w", {2, 4, 3}).Input("offset", {"N", 6, 4});
       return m.Node("DeformConv", {"x", "w", "offset"}, {"n"}).MeanLoss("n");
     },
     "needs an image of two axes"},
};

class HostileDeformConv : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileDeformConv, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileDeformConv, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace act
