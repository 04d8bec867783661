// How rows are given to teams of threads (kernels/cuda/source/row_pass.h).
#pragma once

#include <cstdint>
#include <string>

namespace act::cuda {

struct RowPlan {
  std::string shape;  // "RowShape<32, 8, 4, true>"
  int threads = 256;  // of a block
  int64_t teams = 8;  // of a block
};

// Depends on nothing but what follows, so that a row has the same bits in any batch. `passes`: how often
// the rows are read; where it is once, none is held. `operands`: rows that a team reads together.
// `aligned`: that rows whose length is a multiple of 4 may be read by four elements.
RowPlan PlanRows(int64_t columns, int passes, int operands, bool aligned);

}  // namespace act::cuda
