#include "runtime/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

const std::vector<InputSlot> kSlots = {{"image", {DType::kFloat32, {Dim::Batch(), 2}}, 0},
                                       {"label", {DType::kInt64, {Dim::Batch()}}, 10}};

template <class T>
HostView View(DType dtype, std::vector<int64_t> dims, const std::vector<T>& data) {
  return {.dtype = dtype,
          .dims = std::move(dims),
          .data = reinterpret_cast<const std::byte*>(data.data()),
          .bytes = static_cast<int64_t>(data.size() * sizeof(T))};
}

// A tensor with its own memory.
template <class T>
struct Buffer {
  Buffer(DType dtype, const TensorType& type, int64_t batch)
      : data(static_cast<size_t>(ElementCount(DimsAt(type.dims, batch)))) {
    EXPECT_EQ(type.dtype, dtype);
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(data)); }
  std::vector<T> data;
};

class DataSetTest : public ::testing::Test {
 protected:
  // Sample i has image (i, -i) and label i.
  void Write(int64_t images, int64_t labels) {
    std::vector<float> image;
    std::vector<int64_t> label(static_cast<size_t>(labels));
    for (int64_t i = 0; i < images; ++i)
      image.insert(image.end(), {static_cast<float>(i), static_cast<float>(-i)});
    std::iota(label.begin(), label.end(), 0);
    ASSERT_EQ(llvm::toString(WriteNpy(folder_ / "image.npy", View(DType::kFloat32, {images, 2}, image))), "");
    ASSERT_EQ(llvm::toString(WriteNpy(folder_ / "label.npy", View(DType::kInt64, {labels}, label))), "");
  }
  std::string Spec() { return "image=" + folder_ / "image.npy" + ",label=" + folder_ / "label.npy"; }
  std::unique_ptr<BatchSource> Open(const DataSetOptions& options, int64_t batch = 3) {
    auto source = OpenDataSet(kSlots, batch, "--data", Spec(), options);
    if (source) return std::move(*source);
    ADD_FAILURE() << llvm::toString(source.takeError());
    return nullptr;
  }
  std::string ErrorOf(const std::string& spec, const DataSetOptions& options = {}) {
    auto source = OpenDataSet(kSlots, 3, "--data", spec, options);
    return source ? "" : llvm::toString(source.takeError());
  }
  // Returns the labels until the end of the epoch, in batches of at most `batch`. Checks that
  // images go with them.
  static std::vector<int64_t> ReadEpoch(BatchSource& source, int64_t batch) {
    std::vector<int64_t> labels;
    while (const int64_t n = source.Next(batch)) {
      Buffer<float> image(DType::kFloat32, kSlots[0].type, n);
      Buffer<int64_t> label(DType::kInt64, kSlots[1].type, n);
      source.Fill(0, image.bytes());
      source.Fill(1, label.bytes());
      for (size_t i = 0; i < label.data.size(); ++i) {
        EXPECT_EQ(image.data[2 * i], static_cast<float>(label.data[i]));
        EXPECT_EQ(image.data[2 * i + 1], static_cast<float>(-label.data[i]));
      }
      labels.insert(labels.end(), label.data.begin(), label.data.end());
    }
    return labels;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DataSetTest, InOrderWithAPartialLastBatch) {
  Write(10, 10);
  auto source = Open({.shuffle = false});
  EXPECT_EQ(source->SamplesPerEpoch(), 10);
  EXPECT_EQ(ReadEpoch(*source, 3), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(source->Next(3), 0) << "the epoch stays at its end";
}

TEST_F(DataSetTest, AFixedBatchLeavesTheRestOut) {
  Write(10, 10);
  auto source = Open({.shuffle = false, .partial_batch = false});
  EXPECT_EQ(ReadEpoch(*source, 3).size(), 9u);
}

TEST_F(DataSetTest, EachEpochShufflesEverySampleAnew) {
  Write(100, 100);
  auto source = Open({.seed = 5});
  const std::vector<int64_t> first = ReadEpoch(*source, 7);
  source->StartEpoch(1, 0);
  const std::vector<int64_t> second = ReadEpoch(*source, 7);
  EXPECT_NE(first, second);
  EXPECT_EQ(ReadEpoch(*Open({.seed = 5}), 9), first) << "the same seed: the same order, at any batch size";
  EXPECT_NE(ReadEpoch(*Open({.seed = 6}), 7), first);
  for (std::vector<int64_t> epoch : {first, second}) {
    std::sort(epoch.begin(), epoch.end());
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(epoch[static_cast<size_t>(i)], i);
  }
}

TEST_F(DataSetTest, ContinuesInTheMiddleOfAnEpoch) {
  Write(20, 20);
  auto whole = Open({});
  whole->StartEpoch(3, 0);
  const std::vector<int64_t> all = ReadEpoch(*whole, 4);
  auto rest = Open({});
  rest->StartEpoch(3, 8);
  EXPECT_EQ(ReadEpoch(*rest, 4), std::vector<int64_t>(all.begin() + 8, all.end()));
  rest->StartEpoch(3, 1000);  // a checkpoint made with a larger data set
  EXPECT_EQ(rest->Next(4), 0);
}

TEST_F(DataSetTest, ShufflesAreUniform) {
  // 6 orders of 3 samples in 6000 shuffles: each is expected 1000 times, with a standard deviation
  // of 29. The tolerance of 174 is 6 of them.
  std::map<std::vector<uint32_t>, int> seen;
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) {
    std::vector<uint32_t> order = {0, 1, 2};
    ShuffleSamples(1, epoch, order);
    ++seen[order];
  }
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [order, times] : seen) EXPECT_NEAR(times, 1000, 174);
}

TEST_F(DataSetTest, ErrorsNameInputExpectedAndFound) {
  Write(10, 9);
  const std::string image = folder_ / "image.npy", label = folder_ / "label.npy";
  const auto says = [&](const std::string& spec, const std::string& what) {
    const std::string text = ErrorOf(spec);
    EXPECT_NE(text.find(what), std::string::npos) << "got: " << text;
  };
  says(Spec(), label + " has 9 samples, " + image + " has 10");
  says("image=" + image,
       "has no file for input 'label'\nhint: one flag names all: --data=image=FILE,label=FILE");
  // A misspelt input is told as that, and not as one that is missing.
  says("images=" + image + ",label=" + label,
       "the model has no input 'images'\nhint: its inputs are: image, label");
  says(Spec() + ",mask=" + image, "the model has no input 'mask'\nhint: its inputs are: image, label");
  says("image=" + image + ",image=" + image, "'image' is given twice");
  says("image", "'image' is not NAME=FILE.npy");
  says("image=" + label + ",label=" + label, "input 'image': expected f32[samples,2], found i64[9]");
  says("image=" + folder_ / "absent.npy" + ",label=" + label, "absent.npy: cannot open");
  Write(2, 2);
  EXPECT_NE(
      ErrorOf(Spec(), {.partial_batch = false}).find("has 2 samples, less than the model's fixed batch of 3"),
      std::string::npos);
}

TEST_F(DataSetTest, ErrorsSayHowToConvertAnArray) {
  const std::vector<InputSlot> slots = {
      {.name = "image", .type = {DType::kFloat32, {Dim::Batch(), Dim(3), Dim(4), Dim(5)}}},
      {.name = "label", .type = {DType::kInt64, {Dim::Batch()}}}};
  const std::vector<double> numbers(120);
  const std::string image = folder_ / "image.npy", label = folder_ / "label.npy";
  const auto error_of = [&](const HostView& images, const HostView& labels) {
    EXPECT_EQ(llvm::toString(WriteNpy(image, images)) + llvm::toString(WriteNpy(label, labels)), "");
    auto source = OpenDataSet(slots, 2, "--data", "image=" + image + ",label=" + label, {});
    return source ? "" : llvm::toString(source.takeError());
  };
  const auto view = [&](DType dtype, std::vector<int64_t> dims) {
    const int64_t bytes = ElementCount(dims) * ByteSize(dtype);
    return HostView{.dtype = dtype,
                    .dims = std::move(dims),
                    .data = reinterpret_cast<const std::byte*>(numbers.data()),
                    .bytes = bytes};
  };
  const std::string found = "\nhint: if the numbers mean the same: numpy.save(FILE, array";
  const HostView good_image = view(DType::kFloat32, {2, 3, 4, 5}), good_label = view(DType::kInt64, {2});
  EXPECT_EQ(error_of(good_image, good_label), "");
  EXPECT_EQ(error_of(good_image, view(DType::kInt32, {2})),
            label + ": input 'label': expected i64[samples], found i32[2]" + found + ".astype('int64'))");
  EXPECT_EQ(error_of(good_image, view(DType::kUint8, {2, 1})),
            label + ": input 'label': expected i64[samples], found u8[2,1]" + found +
                ".reshape(-1).astype('int64'))");
  EXPECT_EQ(error_of(view(DType::kFloat64, {2, 4, 5, 3}), good_label),
            image + ": input 'image': expected f32[samples,3,4,5], found f64[2,4,5,3]" + found +
                ".transpose(0, 3, 1, 2).astype('float32'))");
  EXPECT_EQ(error_of(view(DType::kFloat32, {2, 60}), good_label),
            image + ": input 'image': expected f32[samples,3,4,5], found f32[2,60]" + found +
                ".reshape(-1, 3, 4, 5))");
  EXPECT_EQ(error_of(view(DType::kFloat32, {2, 3, 4, 4}), good_label),
            image + ": input 'image': expected f32[samples,3,4,5], found f32[2,3,4,4]");
}

TEST_F(DataSetTest, ABatchLargerThanTheDataSetIsTold) {
  Write(2, 2);
  for (const bool shuffle : {true, false}) {  // an evaluation may well be of fewer samples
    auto source = Open({.shuffle = shuffle}, 3);
    const std::vector<std::string> warnings = source->TakeWarnings();
    ASSERT_EQ(warnings.size(), shuffle ? 1u : 0u);
    if (!shuffle) continue;
    EXPECT_NE(warnings[0].find("has 2 samples, fewer than the batch of 3"), std::string::npos);
  }
  EXPECT_TRUE(Open({.shuffle = true}, 2)->TakeWarnings().empty());
}

TEST_F(DataSetTest, WhatAFixedBatchLeavesOutIsTold) {
  Write(10, 10);
  const std::string told = "--data: has 10 samples, no multiple of the model's fixed batch of ";
  const auto warnings = [&](bool shuffle, bool partial_batch, int64_t batch) {
    return Open({.shuffle = shuffle, .partial_batch = partial_batch}, batch)->TakeWarnings();
  };
  EXPECT_EQ(warnings(true, false, 4),
            std::vector<std::string>{told + "4: each epoch leaves out 2, others each time"});
  EXPECT_EQ(warnings(false, false, 4), std::vector<std::string>{told + "4: the last 2 are never used"});
  EXPECT_EQ(warnings(false, false, 3), std::vector<std::string>{told + "3: the last 1 is never used"});
  EXPECT_TRUE(warnings(true, false, 5).empty());
  EXPECT_TRUE(warnings(true, true, 4).empty());
}

TEST_F(DataSetTest, NotFiniteNumbersAreToldOnce) {
  Write(4, 4);
  std::vector<float> image(8, 1.f);
  image[5] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(llvm::toString(WriteNpy(folder_ / "image.npy", View(DType::kFloat32, {4, 2}, image))), "");
  auto source = Open({.shuffle = false}, 2);
  std::vector<std::string> warnings;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    source->StartEpoch(epoch, 0);
    while (source->Next(2)) {
      Buffer<float> buffer(DType::kFloat32, kSlots[0].type, 2);
      source->Fill(0, buffer.bytes());
      for (std::string& warning : source->TakeWarnings()) warnings.push_back(std::move(warning));
    }
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("image.npy: holds NaN or infinite numbers"), std::string::npos) << warnings[0];
}

TEST_F(DataSetTest, AFixedBatchMustFitTheInputs) {
  const std::vector<float> image(6, 1.f);
  const std::vector<int64_t> label = {1, 2, 3};
  const std::string path = folder_ / "inputs.safetensors";
  const NamedTensor good_image{"image", View(DType::kFloat32, {3, 2}, image)},
      good_label{"label", View(DType::kInt64, {3}, label)};
  const auto error_of = [&](const std::vector<NamedTensor>& tensors) {
    EXPECT_EQ(llvm::toString(WriteSafetensors(path, tensors)), "");
    auto source = FixedBatch(kSlots, path, 3);
    return source ? "" : llvm::toString(source.takeError());
  };
  EXPECT_EQ(error_of({good_image, good_label}), "");
  EXPECT_EQ(error_of({good_image}), path + ": input 'label': is missing; expected i64[3]");
  EXPECT_EQ(error_of({good_label, {"image", View(DType::kFloat32, {2, 3}, image)}}),
            path + ": input 'image': expected f32[3,2] at --batch=3, found f32[2,3]");
  EXPECT_EQ(error_of({good_image, {"label", View(DType::kFloat32, {6}, image)}}),
            path + ": input 'label': expected i64[3] at --batch=3, found f32[6]");
}

TEST(RandomBatch, HasTheRightTypesAndRanges) {
  auto source = RandomBatch(kSlots, 3);
  EXPECT_EQ(source->Next(50000), 50000);
  Buffer<float> image(DType::kFloat32, kSlots[0].type, 50000), again = image;
  Buffer<int64_t> label(DType::kInt64, kSlots[1].type, 50000);
  source->Fill(0, image.bytes());
  source->Fill(1, label.bytes());
  double sum = 0, squares = 0;
  for (float x : image.data) sum += x, squares += static_cast<double>(x) * x;
  // 100,000 numbers: the mean has a standard deviation of .0032, the variance one of .0028. The
  // tolerance is 5 of them.
  EXPECT_NEAR(sum / 1e5, 0, 0.016);
  EXPECT_NEAR(squares / 1e5, 1, 0.015);
  EXPECT_EQ(*std::min_element(label.data.begin(), label.data.end()), 0);
  EXPECT_EQ(*std::max_element(label.data.begin(), label.data.end()), 9);
  source->Fill(0, again.bytes());
  EXPECT_EQ(again.data, image.data) << "the same at every step";
}

TEST(InputSlots, KnowTheRangeOfLabelsAndIndices) {
  Graph graph;
  const auto add = [&](const std::string& name, ValueKind kind, DType dtype, Dims dims) {
    graph.values.push_back({.name = name, .type = {dtype, std::move(dims)}, .kind = kind, .data = {}});
    const auto id = static_cast<ValueId>(graph.values.size() - 1);
    if (kind == ValueKind::kInput) graph.inputs.push_back(id);
    return id;
  };
  const auto node = [&](const std::string& op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    Node made;
    made.op = op;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    graph.nodes.push_back(std::move(made));
  };
  const ValueId tokens = add("tokens", ValueKind::kInput, DType::kInt64, {Dim::Batch(), 5});
  const ValueId labels = add("labels", ValueKind::kInput, DType::kInt64, {Dim::Batch(), 5});
  add("unused", ValueKind::kInput, DType::kInt64, {Dim::Batch()});
  const ValueId table = add("table", ValueKind::kParameter, DType::kFloat32, {300, 8});
  const ValueId rows = add("rows", ValueKind::kActivation, DType::kFloat32, {Dim::Batch(), 5, 8});
  const ValueId flat = add("flat", ValueKind::kActivation, DType::kInt64, {Dim(0, 5)});
  const ValueId loss = add("loss", ValueKind::kActivation, DType::kFloat32, {});
  node("Gather", {table, tokens}, {rows});
  node("Reshape", {labels}, {flat});
  node("SoftmaxCrossEntropy", {rows, flat}, {loss});
  const std::vector<InputSlot> slots = InputSlots(graph);
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0].classes, 300);
  EXPECT_EQ(slots[1].classes, 8);
  EXPECT_EQ(slots[2].classes, 0);
}

}  // namespace
}  // namespace act
