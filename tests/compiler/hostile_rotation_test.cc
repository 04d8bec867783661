// Fourier transforms and rotary position embeddings that fit nothing. Each gives one clear error.
#include "tests/compiler/hostile_model.h"

namespace act {
namespace {

using testing::Attr;
using testing::Hostile;
using testing::OnnxModel;

const Hostile kHostile[] = {
    {"dft_of_nothing",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 4, 1}).Integers("none", {0}).Node("DFT", {"x", "none"}, {"n"});
       return m.MeanLoss("n");
     },
     "a transform of 0 numbers"},
    {"dft_too_large",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 4, 1}).Integers("many", {1 << 23}).Node("DFT", {"x", "many"}, {"n"});
       return m.MeanLoss("n");
     },
     "a matrix of 67108864 numbers"},
    {"dft_of_parts",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 4, 2}).Node("DFT", {"x"}, {"n"}, {Attr("axis", int64_t{-1})});
       return m.MeanLoss("n");
     },
     "the last axis holds the parts of a number"},
    {"stft_by_data",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 9, 1}).Input("step", {1}, onnx::TensorProto::INT64);
       return m.Node("STFT", {"x", "step"}, {"n"}).MeanLoss("n");
     },
     "input 1 must be known when compiling"},
    {"stft_step",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 9, 1}).Integers("step", {0}).Node("STFT", {"x", "step"}, {"n"});
       return m.MeanLoss("n");
     },
     "the step between frames must be known and positive"},
    {"stft_long_frames",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 9, 1}).Integers("step", {2}).Weight("w", {12});
       return m.Node("STFT", {"x", "step", "w"}, {"n"}).MeanLoss("n");
     },
     "frames of 12 are longer"},
    {"stft_window",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 9, 1}).Integers("step", {2}).Integers("length", {5}).Weight("w", {4});
       return m.Node("STFT", {"x", "step", "w", "length"}, {"n"}).MeanLoss("n");
     },
     "does not fit frames of 5"},
    {"rotary_odd",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2, 5, 7}).Weight("c", {1, 5, 3}).Node("RotaryEmbedding", {"x", "c", "c"}, {"n"});
       return m.MeanLoss("n");
     },
     "turns 7 numbers of a head of 7"},
    {"rotary_angles",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 2, 5, 8}).Weight("c", {1, 4, 4}).Node("RotaryEmbedding", {"x", "c", "c"}, {"n"});
       return m.MeanLoss("n");
     },
     "are no angles of 4 pairs for each token"},
    {"rotary_without_heads",
     [] {
       OnnxModel m;
       m.Input("x", {"N", 5, 8}).Weight("c", {1, 5, 4}).Node("RotaryEmbedding", {"x", "c", "c"}, {"n"});
       return m.MeanLoss("n");
     },
     "num_heads = 0"},
};

class HostileRotation : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileRotation, IsOneClearError) { testing::ExpectOneClearError(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, HostileRotation, ::testing::ValuesIn(kHostile),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

}  // namespace
}  // namespace act
