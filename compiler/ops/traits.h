// The traits of operators: what the op table (op_table.h) says of each beside its arithmetic, in
// terms by which passes decide.
#pragma once

#include <cstdint>

namespace act {

// Elementwise arithmetic that passes look through.
enum class Arithmetic : uint8_t {
  kOther,
  kCopy,
  kNegative,
  kSum,         // of two operands
  kDifference,  // of two operands
  kProduct,     // of two operands, element by element: linear in each
};

// What moves numbers, all or some of them, and computes none. Not the gradients of such operators,
// which add.
enum class Movement : uint8_t {
  kNone,
  kReshape,    // all, in their order: shares its operand's storage
  kTranspose,  // all, in another order
  kSlice,      // some, each once
  kConcat,     // those of all operands, each once
  kPad,        // with constants or copies at the borders, or without the borders
  kRepeat,     // each as often as the result's shape asks for
  kGather,     // those that an index names
  kDrop,       // all, or 0 where its random stream says so
};

// What multiplies operands and sums up the products.
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

// The part that an operator has in a normalization.
struct Normalization {
  enum class Role : uint8_t {
    kNone,
    kWhole,       // as models contain it; it is lowered to those below
    kStatistics,  // x -> mean, 1 / deviation, largest |xhat|?
    kNormalize,   // x, mean, 1 / deviation -> xhat
    kApply,       // x, mean, 1 / deviation, gamma, beta -> gamma xhat + beta
    kDistance,    // x, mean, 1 / deviation, .. -> +-(xhat + shift), with the sign of a ReLU's result
    kGradient,    // dy, xhat, 1 / deviation, .., means -> dx
  };
  Role role = Role::kNone;
  bool by_rows = false;  // by statistics of the sample itself, and not of the batch
  bool sided = false;    // kDistance: the sign says nothing of the magnitude
  int first_mean = 0;    // kGradient: the first operand that is a mean over what is normalized together
};

// What the numbers of a result are like: the prior by which levels are distributed (mix-levels).
enum class Values : uint8_t {
  kNormal,
  kRectified,    // about 0 for half of the operands
  kSlope,        // a derivative, mostly between 0 and 1
  kProbability,  // beside which the distance from what is right is small
};

// How squared norms travel, if not as the first operand's, as a sum or a normalization: the prior
// of gradient_shares.h.
enum class Squares : uint8_t {
  kFirst,
  kByElements,  // as the number of elements: some are left out, or are repeated
  kAverage,     // the average of several numbers
  kHandedOut,   // the gradient of kAverage: each gets its part
  kDivided,     // by the attribute `extent`
  kAttention,   // the gradient of averages over keys
};

enum class Coding : uint8_t { kNone, kEncode, kDecode };

// What an operand is read as; flags. They decide in which form a value may be stored that it reads.
enum class Need : uint8_t {
  kNumbers = 0,
  kProduct = 1,     // a factor of a product
  kScores = 2,      // a softmax is computed of its products
  kExactly = 4,     // an error would bias the result, or there are infinities
  kSign = 8,        // whether it is above 0, and nothing else
  kStatistics = 16  // means, deviations, labels: small, and factors of much else
};
constexpr Need operator|(Need a, Need b) {
  return static_cast<Need>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

// Has ONNX the operator, by the same name, with the same operands and meaning?
enum class OnnxTwin : uint8_t {
  kNone,
  kSame,               // with the same attributes
  kWithoutAttributes,  // ONNX's takes none; ours say nothing here
};

}  // namespace act
