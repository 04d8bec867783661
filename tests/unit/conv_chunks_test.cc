// How convolutions are divided into chunks.
#include "kernels/cpu/conv_chunks.h"

#include <gtest/gtest.h>

#include <random>

namespace act {
namespace {

ConvShape RandomShape(std::mt19937& engine) {
  const auto draw = [&engine](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  ConvShape s;
  s.rank = static_cast<int>(draw(1, 3));
  s.batch = draw(1, 9);
  s.channels = draw(1, 5);
  s.out_channels = draw(1, 5);
  for (size_t a = static_cast<size_t>(3 - s.rank); a < 3; ++a) {
    s.kernel[a] = draw(1, 4);
    s.stride[a] = draw(1, 4);
    s.dilation[a] = draw(1, 3);
    s.in[a] = draw(1, 20);
    s.pad[a] = draw(0, 4);
    const int64_t window = (s.kernel[a] - 1) * s.dilation[a] + 1;
    s.pad_end[a] = draw(0, 4) + std::max<int64_t>(0, window - s.in[a] - s.pad[a]);
    s.out[a] = (s.in[a] + s.pad[a] + s.pad_end[a] - window) / s.stride[a] + 1;
  }
  return s;
}

// A chunk's convolution reads and makes what the whole one does at its rows.
void CheckChunk(const ConvShape& s, const ConvChunks& chunks, int64_t i, bool by_input) {
  const auto a = static_cast<int>(3 - s.rank);
  const auto axis = static_cast<size_t>(a);
  const ConvRows x = chunks.XRows(i), y = chunks.YRows(i);
  const ConvShape part = chunks.ShapeOf(i);
  EXPECT_EQ(part.batch, x.samples);
  EXPECT_EQ(part.batch, y.samples);
  EXPECT_EQ(x.first_sample, y.first_sample);
  EXPECT_EQ(part.in[axis], x.rows);
  EXPECT_EQ(part.out[axis], y.rows);
  EXPECT_GE(part.pad[axis], 0) << "oneDNN allows no negative border";
  if (x.rows != s.in[axis] || y.rows != s.out[axis]) {
    EXPECT_EQ((y.rows - 1) * s.stride[axis] + (s.kernel[axis] - 1) * s.dilation[axis] + 1,
              x.rows + part.pad[axis] + part.pad_end[axis]);
  }
  for (int64_t o = 0; o < s.out[axis]; ++o)
    for (int64_t k = 0; k < s.kernel[axis]; ++k) {
      const int64_t in = s.Input(a, o, k), local_o = o - y.first_row, local_in = in - x.first_row;
      const bool has_y = local_o >= 0 && local_o < y.rows, has_x = local_in >= 0 && local_in < x.rows;
      if (!s.Inside(a, in)) continue;
      if (has_y) {
        EXPECT_EQ(part.Input(a, local_o, k), local_in);
      }
      // A divided row has all that it depends on.
      if (by_input ? has_x : has_y) {
        EXPECT_TRUE(has_x && has_y) << "row " << o << " of y, tap " << k;
      }
    }
}

TEST(ConvChunks, EachDividedRowIsInOneChunkWithAllItNeeds) {
  std::mt19937 engine(5);
  for (int round = 0; round < 2000; ++round) {
    const ConvShape s = RandomShape(engine);
    const bool by_input = engine() % 2 != 0;
    const auto most = static_cast<int64_t>(engine() % 20000),
               workers = static_cast<int64_t>(1 + engine() % 6);
    SCOPED_TRACE(testing::Message() << "round " << round << (by_input ? ", by input, " : ", ") << most
                                    << " floats, " << workers << " workers");
    const ConvChunks chunks(s, by_input, most, workers);
    const RowedTensor& divided = by_input ? chunks.x() : chunks.y();
    std::vector<int> made(static_cast<size_t>(s.batch * divided.rows));
    for (int64_t i = 0; i < chunks.Count(); ++i) {
      const ConvRows r = by_input ? chunks.XRows(i) : chunks.YRows(i);
      for (int64_t n = 0; n < r.samples; ++n)
        for (int64_t row = 0; row < r.rows; ++row)
          ++made[static_cast<size_t>((r.first_sample + n) * divided.rows + r.first_row + row)];
      CheckChunk(s, chunks, i, by_input);
      // Chunks of a kind have one shape, the first one's the largest.
      const int64_t like = chunks.IsFull(i) ? 0 : chunks.Count() - 1;
      EXPECT_EQ(chunks.ShapeOf(i).in, chunks.ShapeOf(like).in);
      EXPECT_EQ(chunks.ShapeOf(i).pad, chunks.ShapeOf(like).pad);
      EXPECT_EQ(chunks.ShapeOf(i).out, chunks.ShapeOf(like).out);
      EXPECT_EQ(chunks.ShapeOf(i).batch, chunks.ShapeOf(like).batch);
      EXPECT_LE(chunks.x().Elements(chunks.XRows(i)), chunks.x().Elements(chunks.XRows(0)));
      EXPECT_LE(chunks.y().Elements(chunks.YRows(i)), chunks.y().Elements(chunks.YRows(0)));
    }
    EXPECT_EQ(made, std::vector<int>(made.size(), 1));
    const int64_t units = by_input ? divided.rows / s.stride[static_cast<size_t>(3 - s.rank)] : divided.rows;
    EXPECT_GE(chunks.Count(), std::min(workers, s.batch * std::max<int64_t>(units, 1)) / 2);
    const auto floats = [&](int64_t i) {
      return chunks.x().Elements(chunks.XRows(i)) + chunks.y().Elements(chunks.YRows(i));
    };
    // Whole samples may have rows of y that read nothing but the border, which a chunk of rows leaves out.
    if (chunks.Count() < s.batch + 1) continue;
    const ConvChunks smallest(s, by_input, 0, 1);
    EXPECT_LE(floats(0), std::max(most, smallest.x().Elements(smallest.XRows(0)) +
                                            smallest.y().Elements(smallest.YRows(0))));
  }
}

TEST(ConvChunks, HostileExtentsDoNotOverflow) {
  ConvShape s;
  s.rank = 1;
  s.batch = int64_t{1} << 31;
  s.channels = s.out_channels = int64_t{1} << 31;
  s.in[2] = s.out[2] = s.kernel[2] = s.stride[2] = s.dilation[2] = int64_t{1} << 31;
  s.pad[2] = -(int64_t{1} << 31);
  for (const bool by_input : {false, true}) {
    const ConvChunks chunks(s, by_input, 1 << 19, 4);
    EXPECT_GE(chunks.x().Elements(chunks.XRows(0)) + chunks.y().Elements(chunks.YRows(0)), int64_t{1} << 60);
  }
}

}  // namespace
}  // namespace act
