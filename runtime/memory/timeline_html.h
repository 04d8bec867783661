// The picture of a step's memory, for pages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/memory/categories.h"
#include "runtime/memory/layout.h"

namespace act {

struct StepPicture {
  std::vector<std::string> ops = {};            // label of each node
  std::vector<CategoryBytes> by_category = {};  // live bytes at each node
  std::vector<int64_t> live_bytes = {};         // their sums
  int64_t first_backward = 0;
  int64_t top_bytes = 0;  // of the picture's upper edge
};

// `layout`: the plan's at some batch size.
StepPicture PictureOf(const Plan& plan, const MemoryLayout& layout);

// Areas stacked by category, and under the pointer the name of each node. Of more than `most_columns` nodes
// neighbours share a column, which shows the one with the most bytes.
std::string StepPictureSvg(const StepPicture& picture, size_t most_columns);

// "#d08770".
const char* ColorOf(MemoryCategory category);
// From the bottom of the picture upwards.
std::vector<MemoryCategory> LayersOfPicture();

}  // namespace act
