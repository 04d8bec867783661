// The update of a chunk of a table's rows, whose gradient is in scratch space.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kernels/site/row_update_shape.h"
#include "runtime/executor/kernel.h"

namespace act {

// For chunks of one number of rows.
class ChunkUpdate {
 public:
  virtual ~ChunkUpdate() = default;
  // Of the rows from `first` on. Returns an error, or an empty string.
  virtual std::string Run(const KernelArgs& args, int64_t first, float* gradient) = 0;
};

// Of the site's program, whose loop runs over these rows on so many threads. Null, with the reason in *why, if there
// is no kernel for it.
std::unique_ptr<ChunkUpdate> ProgramUpdate(const KernelSite& site, const RowUpdateShape& shape, int64_t rows,
                                           int threads, std::string* why);
// Of an operator of state in few bits, as "QuantizedAdam". The rows begin with a block of moments, and end with one or
// with the table.
std::unique_ptr<ChunkUpdate> QuantizedUpdate(std::string_view op, const KernelSite& site,
                                             const RowUpdateShape& shape, int64_t rows, std::string* why);

}  // namespace act
