// The traits of operators: the facts by which passes decide, which the op table (op_table.h) holds
// beside each operator's arithmetic.
#pragma once

#include <cstdint>

namespace act {

// Elementwise arithmetic that passes recognize.
enum class Arithmetic : uint8_t {
  kOther,
  kCopy,
  kNegative,
  kSum,         // of two operands
  kDifference,  // of two operands
  kProduct,     // of two operands, element by element: linear in each
};

// Operators that move numbers and compute none. The comments say which of the operand's numbers
// are in the result. The gradients of these operators are not among them, because they add.
enum class Movement : uint8_t {
  kNone,
  kReshape,    // all, in the same order: the result shares the operand's storage
  kTranspose,  // all, in another order
  kSlice,      // some, each once
  kConcat,     // all of every operand, each once
  kPad,        // all, with constants or copies around them; a negative pad leaves numbers out
  kPlace,      // all, at places of a tensor of zeros: the gradient of kSlice
  kRepeat,     // all, each as often as the result's shape requires
  kGather,     // those named by an index
  kDrop,       // all, but 0 in place of those that the random stream drops
};

// Operators that multiply operands and sum the products.
enum class Product : uint8_t {
  kNone,
  kConvolution,
  kTransposedConvolution,  // also the gradient of a convolution's input
  kWeightGradient,         // of a convolution
  kMatrix,
  kAttention,
  kAttentionGradient,
};

enum class Reduction : uint8_t { kNone, kSum, kMean, kMax };

// The role of an operator in a normalization.
struct Normalization {
  enum class Role : uint8_t {
    kNone,
    kWhole,       // as models contain it; it is lowered to the roles below
    kStatistics,  // x -> mean, 1 / deviation, largest |xhat|?
    kNormalize,   // x, mean, 1 / deviation -> xhat
    kApply,       // x, mean, 1 / deviation, gamma, beta -> gamma xhat + beta
    // x, mean, 1 / deviation, .. -> +-(xhat + shift), above 0 where a ReLU passes
    kDistance,
    kGradient,  // dy, xhat, 1 / deviation, .., means -> dx
  };
  Role role = Role::kNone;
  bool by_rows = false;  // uses statistics of the sample itself, not of the batch
  bool sided = false;    // kDistance: the sign says nothing about the magnitude
  // kGradient: the position of the first operand that is a mean over the elements that are
  // normalized together.
  int first_mean = 0;
};

// The distribution of a result's numbers. The prior by which mix-levels distributes levels reads
// it.
enum class Values : uint8_t {
  kNormal,
  kRectified,    // about half of the numbers are near 0
  kSlope,        // a derivative, mostly between 0 and 1
  kProbability,  // mostly far larger than its distance from the right answer
  kUnbounded,    // a few may be larger than the others by any factor: 1 / x
};

// How squared norms propagate through an operator, for the prior of gradient_shares.h. The prior
// knows sums and normalizations by other traits.
enum class Squares : uint8_t {
  kFirst,       // the result's is that of the first operand
  kByElements,  // in proportion to the number of elements: some are left out or repeated
  kAverage,     // the average of several numbers
  kHandedOut,   // the gradient of kAverage: each number gets its part
  kDivided,     // by the attribute `extent`
  kAttention,   // the gradient of averages over keys
};

enum class Coding : uint8_t { kNone, kEncode, kDecode };

// How an operand is read, as flags. They decide the forms in which the value may be stored.
enum class Need : uint8_t {
  kNumbers = 0,
  kProduct = 1,     // a factor of a product
  kScores = 2,      // a softmax is computed from its products
  kExactly = 4,     // an error would bias the result, or it holds infinities
  kSign = 8,        // only whether it is above 0
  kStatistics = 16  // means, deviations, labels: small, and factors of many other values
};
constexpr Need operator|(Need a, Need b) {
  return static_cast<Need>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

// Does ONNX have the operator, by the same name, with the same operands and meaning?
enum class OnnxTwin : uint8_t {
  kNone,
  kSame,               // with the same attributes
  kWithoutAttributes,  // ONNX's takes none, and ours have no effect here
};

}  // namespace act
