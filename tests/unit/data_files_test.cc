// Data sets in every form of --data: .npy and safetensors, in one file or in shards.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/data/data_spec.h"
#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "tests/take.h"
#include "tests/unit/resident_files.h"
#include "tests/unit/temporary_folder.h"

namespace act {
namespace {

constexpr int64_t kBatch = 3;
const std::vector<InputSlot> kSlots = {{"image", {DType::kFloat32, {Dim::Batch(), 2}}, 0},
                                       {"label", {DType::kInt64, {Dim::Batch()}}, 10}};

// Sample i has image (i, -i) and label i.
struct Samples {
  Samples(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      images.insert(images.end(), {static_cast<float>(i), static_cast<float>(-i)});
      labels.push_back(i);
    }
  }
  HostView image() const {
    return {.dtype = DType::kFloat32,
            .dims = {static_cast<int64_t>(labels.size()), 2},
            .data = reinterpret_cast<const std::byte*>(images.data()),
            .bytes = static_cast<int64_t>(images.size() * sizeof(float))};
  }
  HostView label() const {
    return {.dtype = DType::kInt64,
            .dims = {static_cast<int64_t>(labels.size())},
            .data = reinterpret_cast<const std::byte*>(labels.data()),
            .bytes = static_cast<int64_t>(labels.size() * sizeof(int64_t))};
  }
  std::vector<float> images;
  std::vector<int64_t> labels;
};

class DataFiles : public ::testing::Test {
 protected:
  void WriteImages(const std::string& name, int64_t begin, int64_t end) {
    ASSERT_EQ(Text(WriteNpy(folder_ / name, Samples(begin, end).image())), "");
  }
  void WriteLabels(const std::string& name, int64_t begin, int64_t end) {
    ASSERT_EQ(Text(WriteNpy(folder_ / name, Samples(begin, end).label())), "");
  }
  void WriteTensors(const std::string& name, int64_t begin, int64_t end, const std::string& image = "image") {
    const Samples samples(begin, end);
    ASSERT_EQ(Text(WriteSafetensors(folder_ / name, {{image, samples.image()}, {"label", samples.label()}})),
              "");
  }
  // Samples 0 to 9 in one file each, and in shards of 4, 1 and 5 samples.
  void WriteAll() {
    WriteImages("image.npy", 0, 10);
    WriteLabels("label.npy", 0, 10);
    WriteTensors("all.safetensors", 0, 10);
    WriteTensors("other.safetensors", 0, 10, "pictures");
    for (const auto& [name, begin, end] : {std::tuple{"a", 0, 4}, {"b", 4, 5}, {"c", 5, 10}}) {
      WriteImages(std::string("image-") + name + ".npy", begin, end);
      WriteLabels(std::string("label-") + name + ".npy", begin, end);
      WriteTensors(std::string("part-") + name + ".safetensors", begin, end);
    }
  }
  // Puts the folder before each file of "image=%a.npy,label=%b.npy".
  std::string InFolder(std::string spec) {
    for (size_t at = 0; (at = spec.find('%', at)) != std::string::npos;) spec.replace(at, 1, folder_ / "");
    return spec;
  }
  std::string ErrorOf(const std::string& spec) {
    auto source = OpenDataSet(kSlots, kBatch, "--data", InFolder(spec), {});
    return source ? "" : Text(source.takeError());
  }
  void Says(const std::string& spec, const std::string& what) {
    EXPECT_NE(ErrorOf(spec).find(InFolder(what)), std::string::npos) << spec << " says: " << ErrorOf(spec);
  }
  // The labels of the first two epochs, in order. Checks that images go with them.
  std::vector<int64_t> ReadEpochs(const std::string& spec) {
    auto source = Take(OpenDataSet(kSlots, kBatch, "--data", InFolder(spec), {.seed = 5}));
    std::vector<int64_t> labels;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      source->StartEpoch(epoch, 0);
      while (const int64_t n = source->Next(kBatch)) {
        Samples batch(0, n);
        source->Fill(0, std::as_writable_bytes(std::span(batch.images)));
        source->Fill(1, std::as_writable_bytes(std::span(batch.labels)));
        for (size_t i = 0; i < batch.labels.size(); ++i) {
          EXPECT_EQ(batch.images[2 * i], static_cast<float>(batch.labels[i]));
          EXPECT_EQ(batch.images[2 * i + 1], static_cast<float>(-batch.labels[i]));
        }
        labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
      }
    }
    return labels;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DataFiles, EveryFormGivesTheSameBatches) {
  WriteAll();
  const std::vector<int64_t> expected = ReadEpochs("image=%image.npy,label=%label.npy");
  ASSERT_EQ(expected.size(), 20u);
  for (const char* spec : {"image=%image-*.npy,label=%label-?.npy", "image=%image-[abc].npy,label=%label.npy",
                           "image=%image.npy,label=%label-*.npy", "%all.safetensors",
                           "image=%all.safetensors,label=%label.npy", "%all.safetensors,label=%label-*.npy",
                           "image=%other.safetensors:pictures,label=%all.safetensors:label",
                           "%part-*.safetensors", "image=%part-*.safetensors:image,label=%label-*.npy"}) {
    EXPECT_EQ(ReadEpochs(spec), expected) << spec;
  }
}

TEST_F(DataFiles, ShardsAreInTheOrderOfTheirNames) {
  WriteLabels("b.npy", 0, 2), WriteLabels("a.npy", 2, 4), WriteLabels("B.npy", 4, 6),
      WriteLabels("a-10.npy", 6, 8);
  auto source = Take(OpenDataSet({kSlots[1]}, 8, "--data", "label=" + folder_ / "*.npy", {.shuffle = false}));
  ASSERT_EQ(source->Next(8), 8);
  std::vector<int64_t> labels(8);
  source->Fill(0, std::as_writable_bytes(std::span(labels)));
  EXPECT_EQ(labels, (std::vector<int64_t>{4, 5, 6, 7, 2, 3, 0, 1}));
}

TEST_F(DataFiles, ANameWithSpecialCharactersIsAFile) {
  WriteImages("image[1].npy", 0, 10);
  WriteImages("image1.npy", 0, 3);
  WriteLabels("label.npy", 0, 10);
  EXPECT_EQ(ErrorOf("image=%image[1].npy,label=%label.npy"), "");
}

TEST_F(DataFiles, APatternThatGoesThroughTheWholeDiskIsRefused) {
  for (const char* name : {"a.npy", "b.npy", "c.txt"}) WriteLabels(name, 0, 2);
  const std::string pattern = folder_ / "*.npy";
  constexpr int64_t kNames = 5;  // with "." and ".."
  EXPECT_EQ(Take(FindFiles(pattern, kNames + 1)).size(), 2u);
  auto refused = FindFiles(pattern, kNames - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(llvm::toString(refused.takeError()),
            pattern +
                ": more than 4 names would be compared with it\nhint: name the folder, and use * for its "
                "files only");
}

// glob() calls itself for each folder.
TEST_F(DataFiles, APatternOfThousandsOfFoldersIsRefused) {
  std::string pattern = "*";
  for (int folder = 0; folder < 100'000; ++folder) pattern += "/a";
  auto refused = FindFiles(pattern);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(llvm::StringRef(llvm::toString(refused.takeError())).contains("more than 100 folders"));
}

TEST_F(DataFiles, ErrorsNameTheFileOrTheShard) {
  WriteAll();
  const std::string image = "image=%image.npy,", label = "label=%label.npy";
  Says(image + "label=%none-*.npy", "--data: input 'label': %none-*.npy: no file matches");
  Says("%none-*.safetensors", "%none-*.safetensors: no file matches");
  Says("image=%," + label, "a folder, not a file");
  Says(image + "label=%image-*.npy", "image-a.npy: input 'label': expected i64[samples], found f32[4,2]");
  Says("image=%other.safetensors," + label,
       "%other.safetensors: has no tensor 'image'\nhint: it holds: label, pictures");
  Says(image + "label=%all.safetensors:mask", "%all.safetensors: has no tensor 'mask'");
  Says("%all.safetensors,%other.safetensors", "would both hold all inputs");
  Says("%all.safetensors,mask=%label.npy", "the model has no input 'mask'");
  Says("%all", "is not NAME=FILE.npy, NAME=FILE.safetensors[:TENSOR] or FILE.safetensors");
  Says("image=%label-a.npy/x.npy," + label, "cannot open: Not a directory");
}

TEST_F(DataFiles, OneShardOfAnotherTypeOrShapeIsNamed) {
  WriteAll();
  WriteLabels("image-b.npy", 4, 5);
  Says("image=%image-*.npy,label=%label-*.npy",
       "%image-b.npy: input 'image': expected f32[samples,2], found i64[1]");
  const float wide[3] = {};
  ASSERT_EQ(Text(WriteNpy(folder_ / "image-b.npy", {.dtype = DType::kFloat32,
                                                    .dims = {1, 3},
                                                    .data = reinterpret_cast<const std::byte*>(wide),
                                                    .bytes = sizeof wide})),
            "");
  Says("image=%image-*.npy,label=%label-*.npy", "found f32[1,3]");
}

TEST_F(DataFiles, DifferentTotalsNameTheShard) {
  WriteAll();
  WriteLabels("label-b.npy", 4, 6);
  Says("image=%image-*.npy,label=%label-*.npy", "--data: %label-b.npy has 2 samples, %image-b.npy has 1");
  Says("image=%image.npy,label=%label-*.npy",
       "--data: %image.npy has 10 samples, the 3 files of input 'label' have 11");
  WriteLabels("label-b.npy", 4, 5);
  WriteLabels("label-d.npy", 10, 11);
  Says("image=%image-*.npy,label=%label-*.npy",
       "--data: %label-d.npy: no file of input 'image' belongs to it");
  WriteLabels("label-a.npy", 0, 0);
  Says("image=%image.npy,label=%label-*.npy", "--data: %label-a.npy has no samples");
}

TEST_F(DataFiles, ArraysOfAnotherOrderAreRefused) {
  WriteAll();
  const auto header = [&](const std::string& text) {
    std::string file = std::string("\x93NUMPY\x01", 7) + std::string(1, '\0');
    file += static_cast<char>(text.size());
    file += '\0';
    testing::Overwrite(folder_ / "image-b.npy", file + text + std::string(8, 'd'));
  };
  header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }\n");
  Says("image=%image-*.npy,label=%label-*.npy", "%image-b.npy: it is column-major");
  header("{'descr': '>f4', 'fortran_order': False, 'shape': (1, 2), }\n");
  Says("image=%image-*.npy,label=%label-*.npy", "%image-b.npy: it is big-endian");
}

TEST_F(DataFiles, AnInputWithTwoAxesOfTheBatchIsRefused) {
  WriteLabels("label.npy", 0, 9);
  const std::vector<InputSlot> square = {{"label", {DType::kInt64, {Dim::Batch(), Dim::Batch()}}, 0}};
  auto source = OpenDataSet(square, kBatch, "--data", InFolder("label=%label.npy"), {});
  ASSERT_FALSE(static_cast<bool>(source));
  EXPECT_NE(Text(source.takeError()).find("several axes that depend on the batch size"), std::string::npos);
}

TEST_F(DataFiles, TheShardWithNumbersThatAreNotFiniteIsNamed) {
  WriteAll();
  Samples last(5, 10);
  last.images[3] = std::numeric_limits<float>::infinity();
  ASSERT_EQ(Text(WriteNpy(folder_ / "image-c.npy", last.image())), "");
  auto source = Take(OpenDataSet(kSlots, kBatch, "--data", InFolder("image=%image-*.npy,label=%label.npy"),
                                 {.shuffle = false}));
  std::vector<std::string> warnings;
  while (const int64_t n = source->Next(kBatch)) {
    Samples batch(0, n);
    source->Fill(0, std::as_writable_bytes(std::span(batch.images)));
    for (std::string& warning : source->TakeWarnings()) warnings.push_back(std::move(warning));
  }
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
                folder_ / "image-c.npy" +
                ": holds NaN or infinite numbers, first among samples 6 to 8 of this epoch's order"}));
}

TEST_F(DataFiles, ResidentMemoryDoesNotGrowWithTheFile) {
  // 64 MiB of zeros: a header and a hole.
  constexpr int64_t kSamples = 1024, kElements = 16384, kBytes = kSamples * kElements * 4;
  const HostView empty{.dtype = DType::kFloat32, .dims = {0, kElements}, .data = nullptr, .bytes = 0};
  ASSERT_EQ(Text(WriteNpy(folder_ / "empty.npy", empty)), "");
  std::string header = testing::Contents(folder_ / "empty.npy");
  header.replace(header.find("(0,16384,), }   "), 16, "(1024,16384,), }");
  testing::Overwrite(folder_ / "x.npy", header);
  ASSERT_EQ(::truncate((folder_ / "x.npy").c_str(), static_cast<off_t>(header.size()) + kBytes), 0);

  const std::vector<InputSlot> slots = {{"x", {DType::kFloat32, {Dim::Batch(), kElements}}, 0}};
  auto source = Take(OpenDataSet(slots, 16, "--data", "x=" + folder_ / "x.npy", {}));
  std::vector<float> batch(16 * kElements);
  const int64_t before = testing::ResidentFileBytes();
  while (source->Next(16)) source->Fill(0, std::as_writable_bytes(std::span(batch)));
  // The rest is for the program's own pages, which are mapped when they are touched.
  EXPECT_LT(testing::ResidentFileBytes() - before, kBytes / 16);
}

}  // namespace
}  // namespace act
