#include "compiler/policy/presets.h"

namespace act {
namespace {

// ActNN (Chen et al., ICML 2021) replaces layers. Each layer quantizes its own input, with the
// minimum and maximum of 256 elements and stochastic rounding. A loss is not one of these layers.
constexpr StorageRules kActnn{.rounding = Rounding::kStochastic,
                              .copy_per_layer = true,
                              .same_bits = true,
                              .keeps_loss = true,
                              .bytes_for_indices = true};

// GACT (Liu et al., ICML 2022) quantizes every tensor that autograd saves, each time that it is
// saved. By default it does not look for tensors that were saved before. The quantizer is ActNN's.
constexpr StorageRules kGact{.rounding = Rounding::kStochastic,
                             .copy_per_layer = true,
                             .same_bits = true,
                             .bytes_for_indices = true,
                             .fuses_attention = false};

// DIVISION (Wang et al., ICML 2023): averages over blocks of pixels in 16 bits, the remainder in 2.
constexpr StorageRules kDivision{.rounding = Rounding::kStochastic,
                                 .same_bits = true,
                                 .keeps_loss = true,
                                 .bytes_for_indices = true,
                                 .splits_frequencies = true};

// BLPA (Chakrabarti and Moseley, NeurIPS 2019): BatchNorm's results, over six deviations.
constexpr StorageRules kBlpa{.same_bits = true, .bytes_for_indices = true, .fixed_range = true};

// AC-GC (Evans and Aamodt, NeurIPS 2021), AutoQuant: bits by a bound on the gradients' error. The
// bound of 1 is that of the configuration published with the program.
constexpr StorageRules kAcgc{.rounding = Rounding::kNearest,
                             .same_bits = true,
                             .keeps_loss = true,
                             .bytes_for_indices = true,
                             .error_bound = 1};

// The program's `swap`: quantized inputs go to the host as they are packed. ReLU masks and pooling
// positions stay.
constexpr StorageRules kActnnSwapping = [] {
  StorageRules rules = kActnn;
  rules.swaps = true;
  return rules;
}();

// The same for every quantized tensor. The system quantizes a ReLU's result and takes the mask from
// it. Our masks therefore go to the host too.
constexpr StorageRules kGactSwapping = [] {
  StorageRules rules = kGact;
  rules.swaps = rules.swaps_masks = true;
  return rules;
}();

// A level that stores the same as another level of its system. The description says what else it
// does there, which no storage rule shows.
constexpr Preset SameAs(Preset preset, const char* name, const char* description) {
  preset.name = name;
  preset.description = description;
  return preset;
}

constexpr Preset kActnnL4{"actnn-L4", 2, false, kActnnSwapping, "L3, and codes wait in the host's memory"};
constexpr Preset kGactL1{"gact-L1", 4, false, kGact, "4 bits"};
constexpr Preset kGactL1Point2{"gact-L1.2", 2, false, kGact, "2 bits"};

}  // namespace

const std::vector<Preset>& AllPresets() {
  static const std::vector<Preset> presets = {
      {"actnn-L1", 4, true, kActnn, "4 bits for inputs of convolutions and linear layers, BatchNorm exact"},
      {"actnn-L2", 4, false, kActnn, "4 bits"},
      {"actnn-L3", 2, false, kActnn, "2 bits, the same in all groups"},
      kActnnL4,
      SameAs(kActnnL4, "actnn-L5", "L4, and defragmentation: a planned arena has none to do"),
      kGactL1,
      {"gact-L1.1", 8, false, kGact, "8 bits"},
      kGactL1Point2,
      SameAs(kGactL1, "gact-L2", "4 bits on average, by sensitivity after --calibrate"),
      {"gact-L2.1", 3, false, kGact, "3 bits on average, by sensitivity after --calibrate"},
      SameAs(kGactL1Point2, "gact-L2.2", "2 bits on average, by sensitivity after --calibrate"),
      {"gact-L3", 4, false, kGactSwapping, "L2, and codes wait in the host's memory"},
      {"division", 2, false, kDivision, "low frequencies in 16 bits, high ones in 2"},
      {"blpa", 4, false, kBlpa, "what BatchNorm makes in 4 bits over a fixed range, for three readers"},
      {"acgc", 8, false, kAcgc, "bits by a bound of the gradients' error, of each type of layer"},
  };
  return presets;
}

const Preset* FindPreset(const std::string& name) {
  for (const Preset& preset : AllPresets())
    if (name == preset.name) return &preset;
  return nullptr;
}

std::string PresetNames() {
  std::string names, last;
  for (const Preset& preset : AllPresets()) {
    if (!last.empty()) names += (names.empty() ? "" : ", ") + last;
    last = preset.name;
  }
  return names + " or " + last;
}

}  // namespace act
