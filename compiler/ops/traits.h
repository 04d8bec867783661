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

// Operators that move numbers, all or some of them, and compute none. The gradients of such
// operators do not count, since they add.
enum class Movement : uint8_t {
  kNone,
  kReshape,    // all, in their order: shares its operand's storage
  kTranspose,  // all, in another order
  kSlice,      // some, each once
  kConcat,     // all of every operand, each once
  kPad,        // with constants or copies at the borders, or without the borders
  kRepeat,     // each as often as the result's shape requires
  kGather,     // those named by an index
  kDrop,       // all, or 0 where the random stream says so
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
    // X, mean, 1 / deviation, .. -> +-(xhat + shift), with the sign of a ReLU's result.
    kDistance,
    kGradient,  // dy, xhat, 1 / deviation, .., means -> dx
  };
  Role role = Role::kNone;
  bool by_rows = false;  // uses statistics of the sample itself, not of the batch
  bool sided = false;    // kDistance: the sign says nothing about the magnitude
  // kGradient: the first operand that is a mean over the elements that are normalized together.
  int first_mean = 0;
};

// The distribution of a result's numbers, for the prior by which levels
// are distributed (mix-levels).
enum class Values : uint8_t {
  kNormal,
  kRectified,    // about 0 for half of the operands
  kSlope,        // a derivative, mostly between 0 and 1
  kProbability,  // mostly far larger than its distance from the right answer
};

// How squared norms propagate, for the prior of gradient_shares.h, if not as the first operand's,
// as in a sum, or as in a normalization.
enum class Squares : uint8_t {
  kFirst,
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
