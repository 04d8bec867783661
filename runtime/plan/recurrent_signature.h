// The operands and results of the recurrent operators, in order, for both the op table and the
// kernels.
#pragma once

#include <string_view>

namespace act {

// One letter for each tensor, for N samples, T steps and H units with G gates:
//   G [N,T,G H]   S [N,T,H]   N [N,H]   H [H]   W [G H,H], the recurrent weights
// A small letter is an operand that may be left out. The first operand of each is a G.
struct RecurrentSignature {
  std::string_view op;
  int gates;
  std::string_view inputs, outputs;
  // RuntimeOp::in_place: a loop reads each pre-activation or slope just before it writes the slope or gradient
  // that replaces it.
  std::string_view in_place;
};

inline constexpr RecurrentSignature kRecurrentSignatures[] = {
    // pre-activations, weights, initial h, initial c -> y, last c, slopes of the gates, slope of c
    // by h, forget gate
    {"Lstm", 4, "GWnn", "SNGSS", "20"},
    // slopes of the gates, slope of c by h, forget gate, weights, dy, d last c -> dx, d initial h,
    // d initial c
    {"LstmGrad", 4, "GSSWsn", "GNN", "00"},
    // pre-activations, weights, recurrent bias of the candidate, initial h -> y, slopes of the
    // gates, reset, update gate
    {"Gru", 3, "GWhn", "SGSS", "10"},
    // slopes of the gates, reset, update gate, weights, dy -> dx, d recurrent part of the
    // candidate, d initial h
    {"GruGrad", 3, "GSSWS", "GSN", "0011"},
    // pre-activations, weights, initial h -> y
    {"Rnn", 1, "GWn", "S", "00"},
    // slope of the activation, weights, dy -> dx, d initial h
    {"RnnGrad", 1, "GWS", "GN", "00"},
};

constexpr const RecurrentSignature* FindRecurrentSignature(std::string_view op) {
  for (const RecurrentSignature& s : kRecurrentSignatures)
    if (s.op == op) return &s;
  return nullptr;
}

}  // namespace act
