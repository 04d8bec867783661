// Blocks of pixels: each pixel occurs once, with the rows of x that its window reads.
#include "kernels/cpu/pixel_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace act {
namespace {

GradWeightShape RandomShape(std::mt19937& engine) {
  const auto draw = [&engine](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  GradWeightShape s;
  const auto first_axis =
      static_cast<size_t>(draw(0, 2));  // 2: rows alone, and one where there is one sample
  s.batch = draw(1, first_axis == 2 ? 2 : 5);
  for (size_t axis = first_axis; axis < 3; ++axis) {
    s.kernel[axis] = draw(1, 4);
    s.stride[axis] = draw(1, 3);
    s.dilation[axis] = draw(1, 3);
    s.pad[axis] = draw(0, 3);
    const int64_t window = (s.kernel[axis] - 1) * s.dilation[axis] + 1;
    s.in[axis] = std::max<int64_t>(1, window - s.pad[axis]) + draw(0, 20);
    s.out[axis] = std::max<int64_t>(1, (s.in[axis] + s.pad[axis] + draw(0, 2) - window) / s.stride[axis] + 1);
  }
  return s;
}

// Slot number -> (row of dy, row of x) of a tap, as given by the runs of a block.
std::map<int64_t, int64_t> RowsOf(const Block& block, const std::vector<SlotRun>& runs) {
  std::map<int64_t, int64_t> rows;
  for (const SlotRun& run : runs)
    for (int64_t k = 0; k < run.slots; ++k) {
      EXPECT_EQ((run.a + k) % block.RowSlots(), (run.b + k) % block.RowSlots());
      const auto x_row = static_cast<size_t>((run.b + k) / block.RowSlots());
      EXPECT_LT(x_row, block.x_rows.size());
      rows[run.a + k] = block.x_rows[x_row];
    }
  return rows;
}

TEST(PixelBlocks, EachPixelOnceWithTheRowsItsWindowReads) {
  std::mt19937 engine(1);
  for (int i = 0; i < 300; ++i) {
    const GradWeightShape s = RandomShape(engine);
    const int64_t parts = 1 + i % 4;
    const PixelBlocks blocks(s, int64_t{1} << (i % 6), 1 + i / 6 % 2);
    SCOPED_TRACE(i);
    Block block = blocks.Empty();
    std::set<std::pair<int64_t, int64_t>> seen;
    for (int64_t part = 0; part < parts; ++part) {
      const Pixels pixels = PartOf(s, part, parts);
      for (int64_t number = 0; number < blocks.Count(pixels); ++number) {
        blocks.Fill(pixels, number, block);
        EXPECT_LE(block.DyRows(), blocks.MostRows());
        EXPECT_LE(block.RowSlots(), blocks.MostRowSlots());
        EXPECT_LE(block.XRows(), blocks.MostXRows());
        const auto [rows, columns] = block.pixels;
        EXPECT_EQ(columns.first % block.terms, 0) << "cuts a slot";
        for (int64_t row = rows.first; row < rows.last; ++row)
          for (int64_t column = columns.first; column < columns.last; ++column)
            EXPECT_TRUE(seen.insert({row, column}).second) << row << ", " << column << " again";
        for (int64_t tap = 0; tap < s.RowTaps(); ++tap) {
          std::map<int64_t, int64_t> expected;
          for (int64_t row = rows.first; row < rows.last; ++row)
            for (int64_t k = 0; k < block.RowSlots(); ++k)
              if (s.XRow(row, tap) >= 0)
                expected[(row - rows.first) * block.RowSlots() + k] = s.XRow(row, tap);
          EXPECT_EQ(RowsOf(block, block.runs[static_cast<size_t>(tap)]), expected) << "tap " << tap;
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), s.batch * s.OutPixels());
  }
}

}  // namespace
}  // namespace act
