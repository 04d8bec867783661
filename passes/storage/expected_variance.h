// What the codes of a graph are expected to add to the gradient's variance, by the prior of gradient_shares.h.
#pragma once

#include <map>

#include "passes/storage/gradient_shares.h"
#include "runtime/levels/allocate_codecs.h"
#include "runtime/plan/graph.h"

namespace act {

class ExpectedVariance {
 public:
  struct Code {
    Codec codec;
    Dims dims;
    double range = 0;         // of a group of its numbers, relative to the root of their mean square
    bool normalized = false;  // the mean square is about 1
  };

  // Finds the codes with levels of a graph after `compress`, those of the backward pass too.
  ExpectedVariance(const Graph& graph, int64_t batch);

  const std::map<ValueId, Code>& codes() const { return codes_; }
  void SetCodec(ValueId code, const Codec& codec) { codes_.at(code).codec = codec; }
  // The code with its part of the variance.
  CodedEdge Of(ValueId code) const;
  // Of all codes. It can be compared between steps of the same model.
  double Sum() const;
  // Of all codes, as a part of the gradient's squared norm.
  double RelativeSum() const;

 private:
  std::map<ValueId, Code> codes_;
  double gradient_square_ = 0;
  std::map<ValueId, GradientShare> shares_;  // made with the square
};

}  // namespace act
