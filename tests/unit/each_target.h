// Runs a test on every instruction set for which we compile and that the machine has.
#pragma once

#include <gtest/gtest.h>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace act {

template <class F>
void ForEachTarget(F&& test) {
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t target : {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SCALAR}}) {
    if (target != HWY_SCALAR && (all & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace act
