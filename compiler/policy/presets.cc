#include "compiler/policy/presets.h"

namespace act {
namespace {

// ActNN (Chen et al., ICML 2021) replaces layers; each quantizes its own input, min and max over 256
// elements, stochastic rounding. A loss is no layer of it.
constexpr StorageRules kActnn{.rounding = Rounding::kStochastic,
                              .copy_per_layer = true,
                              .same_bits = true,
                              .keeps_loss = true,
                              .bytes_for_indices = true};

// GACT (Liu et al., ICML 2022) quantizes whatever autograd saves, each time that it is saved; by default
// without looking for tensors that were saved before. The quantizer is ActNN's.
constexpr StorageRules kGact{.rounding = Rounding::kStochastic,
                             .copy_per_layer = true,
                             .same_bits = true,
                             .bytes_for_indices = true,
                             .fuses_attention = false};

// DIVISION (Wang et al., ICML 2023): averages over blocks of pixels in 16 bits, what is left in 2.
constexpr StorageRules kDivision{.rounding = Rounding::kStochastic,
                                 .same_bits = true,
                                 .keeps_loss = true,
                                 .bytes_for_indices = true,
                                 .splits_frequencies = true};

// BLPA (Chakrabarti and Moseley, NeurIPS 2019): what a BatchNorm makes, over six deviations.
constexpr StorageRules kBlpa{.same_bits = true, .bytes_for_indices = true, .fixed_range = true};

// AC-GC (Evans and Aamodt, NeurIPS 2021), AutoQuant: bits by a bound of the gradients' error. 1 is that of
// the configuration that is published with the program.
constexpr StorageRules kAcgc{.rounding = Rounding::kNearest,
                             .same_bits = true,
                             .keeps_loss = true,
                             .bytes_for_indices = true,
                             .error_bound = 1};

// The program's `swap`: quantized inputs go to the host as they are packed; ReLU masks and pooling positions
// stay.
constexpr StorageRules kActnnSwapping = [] {
  StorageRules rules = kActnn;
  rules.swaps = true;
  return rules;
}();

// The same of all that is quantized. A ReLU's result is, from which the system takes the mask: what is a mask
// here goes to the host too.
constexpr StorageRules kGactSwapping = [] {
  StorageRules rules = kGact;
  rules.swaps = rules.swaps_masks = true;
  return rules;
}();

// A level of a system that stores what another of its levels does. The description says what it adds there,
// which no storage rule shows.
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
