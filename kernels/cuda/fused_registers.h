// What each register of a fused loop is in the text of its kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/fused_plan.h"

namespace act::cuda {

// A register is
//   a scalar   computed once for the kernel, or (kOfRow) once a unit if the unit is one row
//   a column   computed from columns wherever elements need it
//   elements   an array of what the lane has, or a local of the loop over them if nothing else reads it
enum class TextPlace { kScalar, kOfRow, kColumn, kElement };

class TextRegisters {
 public:
  explicit TextRegisters(const CudaLoop& loop);

  TextPlace PlaceOf(int32_t reg) const;
  bool IsArray(int32_t reg) const { return array_[static_cast<size_t>(reg)]; }
  // The number of row reductions that precede it, one after the other.
  int LevelOf(int32_t reg) const { return level_[static_cast<size_t>(reg)]; }
  int levels() const { return levels_; }
  size_t size() const { return level_.size(); }

  std::string Name(int32_t reg) const;
  // As a loop over j reads it; "" for no register.
  std::string Value(int32_t reg) const;

 private:
  void FindLevels();
  void FindArrays();

  const CudaLoop& loop_;
  const Program& program_;
  std::vector<int> level_;
  std::vector<bool> array_;
  int levels_ = 0;
};

}  // namespace act::cuda
