#include "runtime/plan/attribute_types.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "runtime/base/dim.h"

namespace act {
namespace {

// The alternatives of Attribute.
enum Type : size_t { kInt, kFloat, kString, kInts, kFloats };
constexpr const char* kTypeNames[] = {"an integer", "a number", "a text", "a list of integers",
                                      "a list of numbers"};
static_assert(std::size(kTypeNames) == std::variant_size_v<Attribute>);

struct TypeOf {
  std::string_view name;
  Type type;
};
constexpr TypeOf kTypes[] = {
    // Windows and products
    {"strides", kInts},
    {"dilations", kInts},
    {"pads", kInts},
    {"kernel_shape", kInts},
    {"group", kInt},
    {"count_include_pad", kInt},
    {"trans_a", kInt},
    {"trans_b", kInt},
    {"may_round", kInt},
    // Attention
    {"scale", kFloat},
    {"softcap", kFloat},
    {"causal", kInt},
    {"causal_offset", kInt},
    {"window", kInt},
    {"window_offset", kInt},
    {"packed", kInt},
    {"perm_q", kInts},
    {"perm_k", kInts},
    {"perm_v", kInts},
    {"perm_o", kInts},
    {"empty_row", kString},
    {"hidden_gradient", kInt},
    {"probability", kFloat},
    {"distribution", kString},
    {"offset", kFloat},
    {"stream", kInt},
    // Axes and positions
    {"axis", kInt},
    {"axes", kInts},
    {"perm", kInts},
    {"starts", kInts},
    {"steps", kInts},
    {"start", kInts},
    {"step", kInt},
    {"extents", kInts},
    {"reverse", kInt},
    {"exclusive", kInt},
    {"largest", kInt},
    {"last", kInt},
    {"reduction", kString},
    {"ignore_index", kInt},
    {"classes", kInt},
    // Others
    {"mode", kString},
    {"value", kFloat},
    {"scales", kFloats},
    {"coordinate_mode", kString},
    {"nearest_mode", kString},
    {"cubic_a", kFloat},
    {"antialias", kInt},
    {"exclude_outside", kInt},
    {"roi", kFloats},
    {"outside", kString},
    {"align_corners", kInt},
    {"pixels", kInt},
    {"bins", kInts},
    {"samples", kInt},
    {"half_pixel", kInt},
    {"epsilon", kFloat},
    {"momentum", kFloat},
    {"population", kInt},
    {"updates_done", kInt},
    {"activation", kString},
    {"op", kString},
    {"to", kInt},
    {"name", kString},
    {"gradients", kInts},
    {"row_gradient", kInts},
    {"sparse", kInt},
    {"decoupled", kInt},
};

bool IsTooLarge(const Attribute& value) {
  const auto beyond = [](int64_t v) { return v >= kTooLarge || v <= -kTooLarge; };
  if (const auto* one = std::get_if<int64_t>(&value)) return beyond(*one);
  const auto* list = std::get_if<std::vector<int64_t>>(&value);
  return list && std::any_of(list->begin(), list->end(), beyond);
}

}  // namespace

std::optional<std::string> WrongType(const Attributes& attrs) {
  for (const auto& [name, value] : attrs.map()) {
    const auto row = std::ranges::find(kTypes, std::string_view(name), &TypeOf::name);
    if (row == std::end(kTypes)) continue;
    if (row->type != value.index()) return "attribute '" + name + "' is not " + kTypeNames[row->type];
    if (IsTooLarge(value)) return "attribute '" + name + "' is too large";
  }
  return std::nullopt;
}

}  // namespace act
