// Plans that are damaged in their meaning and not in their bytes. An input chooses a plan that the compiler
// made (plan_seeds.h) and changes in it (plan_mutation.h), and the plan is run as far as it goes.
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_mutation.h"
#include "tests/fuzz/plan_run.h"
#include "tests/fuzz/plan_seeds.h"

namespace {

// Four bytes choose the plan, two how it runs.
constexpr size_t kHead = 6;
constexpr size_t kMostMutations = 24;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kHead || size > kHead + kMostMutations * act::fuzz::kMutationBytes) return -1;
  act::fuzz::ByteReader head({data, kHead}), mutations({data + kHead, size - kHead});
  const act::Plan* const seed = act::fuzz::NextSeed(head);
  if (!seed) return -1;
  act::Plan plan = *seed;
  while (!mutations.Done()) act::fuzz::MutatePlan(plan, mutations);
  act::fuzz::FitData(plan);
  act::fuzz::RunPlan(plan, head);
  return 0;
}

// Keeps mutations at multiples of their size: adds, takes away, or changes one.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using act::fuzz::kMutationBytes;
  std::mt19937 random(seed);
  const size_t most = std::min(max_size, kHead + kMostMutations * kMutationBytes);
  if (size < kHead) {
    for (size = 0; size < std::min(kHead, most); ++size) data[size] = static_cast<uint8_t>(random());
    return size;
  }
  const size_t count = (std::min(size, most) - kHead) / kMutationBytes;
  size = kHead + count * kMutationBytes;
  uint8_t* const at = data + kHead + (count ? random() % count : 0) * kMutationBytes;
  switch (count == 0 ? 3 : random() % 12) {
    case 0:
      data[random() % kHead] = static_cast<uint8_t>(random());
      return size;
    case 1:
      for (size_t i = 0; i < 4; ++i) data[i] = static_cast<uint8_t>(random());
      return size;
    case 2:
      if (count == 0) return size;
      std::memmove(at, at + kMutationBytes, static_cast<size_t>(data + size - at) - kMutationBytes);
      return size - kMutationBytes;
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
      if (size + kMutationBytes > most) return size;
      for (size_t i = 0; i < kMutationBytes; ++i) data[size + i] = static_cast<uint8_t>(random());
      return size + kMutationBytes;
    default:
      if (count) at[random() % kMutationBytes] = static_cast<uint8_t>(random());
      return size;
  }
}
