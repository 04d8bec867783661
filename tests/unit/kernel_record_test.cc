#include "runtime/train/kernel_record.h"

#include <gtest/gtest.h>

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint.h"
#include "tests/take.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/test_device.h"
#include "tests/unit/toy_plan.h"

namespace act {
namespace {

// The toy plan on its own kernels, or with another one for the product.
class KernelRecordTest : public ::testing::Test {
 protected:
  KernelRecordTest() {
    toy::RegisterToyKernels(toys_);
    others_.Add("Mul", toy::Always("other.mul", [](const KernelArgs&) {}));
    for (const auto& [op, entries] : toys_.all())
      for (const KernelEntry& entry : entries) others_.Add(op, entry);
  }
  std::unique_ptr<Executor> Open(const KernelRegistry& registry, int64_t batch = 3) {
    return Take(Executor::Create(plan_, Take(LayOut(plan_, batch)), TestDevice(), registry, {}));
  }

  Plan plan_ = toy::ToyPlan();
  KernelRegistry toys_, others_;
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "c";
};

TEST_F(KernelRecordTest, TellsOfOtherKernelsForTheSameWork) {
  ASSERT_EQ(Text(SaveCheckpoint(path_, *Open(toys_), {.step = 5})), "");
  EXPECT_EQ(Take(CompareKernels(path_, *Open(toys_))), "");
  EXPECT_EQ(Take(CompareKernels(path_, *Open(others_))),
            "warning: resumed with other kernels than " + path_ + " was made with: bits will differ");
}

TEST_F(KernelRecordTest, OtherWorkIsNoReasonToWarn) {
  ASSERT_EQ(Text(SaveCheckpoint(path_, *Open(toys_), {.step = 5})), "");
  EXPECT_EQ(Take(CompareKernels(path_, *Open(others_, 2))), "");
  plan_.train.graph.nodes.erase(plan_.train.graph.nodes.begin() + 4);  // counts the samples
  EXPECT_EQ(Take(CompareKernels(path_, *Open(others_))), "");
}

// The kernels of a smaller last batch are not part of it: only runs over whole epochs know them.
TEST_F(KernelRecordTest, IsOfTheFullBatch) {
  const auto executor = Open(toys_);
  const KernelRecord before = RecordOf(*executor);
  Take(executor->Train(2));
  EXPECT_EQ(RecordOf(*executor).work, before.work);
  EXPECT_EQ(RecordOf(*executor).kernels, before.kernels);
}

TEST_F(KernelRecordTest, FilesWithoutItDoNotTell) {
  ASSERT_EQ(Text(WriteSafetensors(path_, {})), "");
  EXPECT_EQ(Take(CompareKernels(path_, *Open(toys_))), "");
}

TEST_F(KernelRecordTest, AnotherTypeIsAnError) {
  const int64_t number = 1;
  const NamedTensor wrong{"kernels",
                          {.dtype = DType::kInt64,
                           .dims = {1},
                           .data = reinterpret_cast<const std::byte*>(&number),
                           .bytes = sizeof number}};
  ASSERT_EQ(Text(WriteSafetensors(path_, {wrong})), "");
  EXPECT_EQ(Text(CompareKernels(path_, *Open(toys_)).takeError()),
            path_ + ": tensor 'kernels': expected i64[2], found i64[1]");
}

}  // namespace
}  // namespace act
