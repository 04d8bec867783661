// What becomes of the products of queries and keys: scores, and what hides them; weights and probabilities; dropout.
#pragma once

#include "kernels/cuda/source/axes.h"
#include "kernels/cuda/source/code_piece.h"
#include "kernels/cuda/source/fused_math.h"
#include "kernels/cuda/source/team.h"
#include "kernels/cuda/source/tensor_tiles.h"

namespace act::cuda {

// What a kernel is compiled for. T: of q, k, v and the gradient of o. Result: of o or the gradients. kVector: elements
// of all tensors that may be loaded at once.
template <class TilesOfBlock, class Operand, class ResultType, int kVectorElements, bool kBiased, bool kMasks,
          bool kCaps, bool kDrops>
struct AttentionForm {
  using Tiles = TilesOfBlock;
  using T = Operand;
  using Result = ResultType;
  static constexpr int kVector = kVectorElements;
  static constexpr bool kHasBias = kBiased, kHasMask = kMasks, kIsCapped = kCaps, kHasDropout = kDrops;
};

// Where element (0, 0) of matrix `slice` lies.
ACT_DEVICE int64_t MatrixAt(const MatrixPlaces& places, int32_t slice) {
  return places.offset + PlaceOf(places.slices, slice);
}
template <class T>
ACT_DEVICE MatrixRows<T> MatrixOf(const void* tensor, const MatrixPlaces& places, int32_t slice, int32_t rows,
                                  int32_t columns) {
  return {static_cast<const T*>(tensor) + MatrixAt(places, slice), places.row, rows, columns};
}

struct KeyRange {
  int32_t first, end;
};

// The keys that `causal` and `window` leave to a query.
ACT_DEVICE KeyRange KeysOf(const AttentionParameters& p, int32_t query) {
  const auto within = [&](int32_t key) { return key < 0 ? 0 : key > p.keys ? p.keys : key; };
  return {within(query + p.window_offset), within(query + p.causal_offset + 1)};
}
// Of a tile of queries, from the start of a tile of keys on. All, if none of them sees a key and all results are NaN.
ACT_DEVICE KeyRange KeysOfTile(const AttentionParameters& p, int32_t first_query) {
  const int32_t after = first_query + kAttentionTile;
  const int32_t last = (after < p.queries ? after : p.queries) - 1;
  const KeyRange range = {KeysOf(p, first_query).first / kAttentionTile * kAttentionTile,
                          KeysOf(p, last).end};
  if (range.first < range.end) return range;
  return {0, p.empty == EmptyRow::kNaN ? p.keys : 0};
}
ACT_DEVICE bool HasTile(const KeyRange& range, int32_t key) { return key >= range.first && key < range.end; }

// Calls f(key) for the tiles of keys that a tile of queries needs: first those that its queries see. If sees_none() then
// says that one of them sees no key, and it takes the mean of all, the other tiles follow. All threads of the block must
// call it.
template <class F, class SeesNone>
ACT_DEVICE void ForKeyTiles(const AttentionParameters& p, int32_t query, const SeesNone& sees_none,
                            const F& f) {
  const KeyRange range = KeysOfTile(p, query);
#pragma unroll 1  // one copy of f
  for (int pass = 0; pass < 2; ++pass) {
    const bool seen = pass == 0;
    if (!seen && (p.empty != EmptyRow::kMean || (range.first == 0 && range.end >= p.keys) || !sees_none()))
      return;
#pragma unroll 1
    for (int32_t key = seen ? range.first : 0; key < (seen ? range.end : p.keys); key += kAttentionTile)
      if (seen || !HasTile(range, key)) f(key);
  }
}

// The share of a score in its row: e^(score - largest). While no key has been seen, all scores are -infinity or NaN. Then
// keys count alike if the query may take their mean: they are forgotten when it sees one.
template <class Tiles>
class WeightsOfRow {
 public:
  ACT_DEVICE WeightsOfRow(const AttentionParameters& p, float largest)
      : largest_(largest != -kInfinity ? largest : 0),
        hidden_(largest == -kInfinity && p.empty == EmptyRow::kMean ? 1 : 0) {}
  ACT_DEVICE float Of(float score) const { return Tiles::Exponential(score - largest_) + hidden_; }

 private:
  const float largest_, hidden_;
};
// What makes a probability of a weight.
ACT_DEVICE float NormalizerOf(const AttentionParameters& p, float largest, float sum) {
  if (p.keys == 0) return 1;
  if (largest != -kInfinity || sum != sum || p.empty == EmptyRow::kMean) return 1 / sum;
  return p.empty == EmptyRow::kZero ? 0 : FromBits(0x7fc00000u);
}

// A thread's rows of a tile of scores: queries query.. of slice `slice` of q.
template <class Form>
class ScoreRows {
  using Tiles = typename Form::Tiles;

 public:
  ACT_DEVICE ScoreRows(const AttentionParameters& p, int32_t slice, int32_t query) : p_(p), query_(query) {
    int64_t bias = 0, mask = 0;
    if constexpr (Form::kHasBias) bias = MatrixAt(p.at_bias, slice);
    if constexpr (Form::kHasMask) mask = MatrixAt(p.at_mask, slice);
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r) {
      const int32_t i = query + Tiles::Row(r);
      if constexpr (Form::kHasBias) bias_[r] = p.bias + bias + i * p.at_bias.row;
      if constexpr (Form::kHasMask) mask_[r] = p.mask + mask + i * p.at_mask.row;
    }
    if constexpr (Form::kHasDropout) {
      random_ = DropoutStream(LoadStep(p.step), p.stream);
      first_call_ = FirstCall(kRandom32Block, p.first_batch + slice / p.heads, p.random_elements, 0);
      first_element_ = (int64_t{slice % p.heads} * p.queries + query) * p.keys;
    }
  }

  // The keys that row r sees, but for a mask, from `key` on: none, if the row does not exist.
  ACT_DEVICE KeyRange Seen(int r, int32_t key) const {
    const int32_t i = query_ + Tiles::Row(r);
    const KeyRange seen = i < p_.queries ? KeysOf(p_, i) : KeyRange{0, 0};
    return {seen.first - key, seen.end - key};
  }
  // Key `key` + `on`.
  ACT_DEVICE bool Hidden(int r, const KeyRange& seen, int32_t key, int32_t on) const {
    if (on < seen.first || on >= seen.end) return true;
    if constexpr (Form::kHasMask) return Load(mask_[r] + (key + on) * p_.at_mask.column) == 0;
    return false;
  }

  // The score of a product of query and key: -infinity if the pair is hidden. *slope: of the score by the scaled
  // product.
  ACT_DEVICE float Score(int r, int32_t key, bool hidden, float product, float* slope = nullptr) const {
    float score = p_.scale * product;
    if (slope) *slope = 1;
    if constexpr (Form::kIsCapped) {
      const float t = HyperbolicTangent(score / p_.softcap);
      score = p_.softcap * t;
      if (slope) *slope = MulAdd(-t, t, 1.0f);
    }
    if (hidden) return -kInfinity;
    if constexpr (Form::kHasBias) score += Load(bias_[r] + key * p_.at_bias.column);
    return score;
  }

  // Products of row r and the keys of a tile from `key` on become scores.
  ACT_DEVICE void ToScores(int r, int32_t key, float (&x)[Tiles::kColumns]) const {
    const int32_t first = key + Tiles::Column(0);
    const KeyRange seen = Seen(r, first);
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c) {
      const int32_t on = Tiles::ColumnsOn(c);
      x[c] = Score(r, first + on, Hidden(r, seen, first, on), x[c]);
    }
  }

  // Bit c says that dropout keeps the pair of row r and the thread's column c of the tile from `key` on. Numbers of four
  // columns that lie 16 apart are the words of one call (kernels/math/random.h), or the last of one and the first of the
  // next.
  ACT_DEVICE uint32_t Keeps(int r, int32_t key) const {
    if constexpr (!Form::kHasDropout) return ~0u;
    constexpr int kCycle = Tiles::kColumnCycle;
    static_assert(Tiles::kColumns == 4 * kCycle && kRandom32Block == 4 * kRandomLanes);
    const int64_t row = first_element_ + int64_t{Tiles::Row(r)} * p_.keys + key;
    uint32_t keeps = 0;
#pragma unroll 1  // all at once would take too many registers
    for (int first = 0; first < kCycle; ++first) {
      const int64_t element = row + Tiles::Column(first);
      const uint64_t call = first_call_ + static_cast<uint64_t>(element / kRandom32Block * kRandomLanes +
                                                                element % kRandomLanes);
      const auto word = static_cast<int>(element % kRandom32Block / kRandomLanes);  // of the first column
      RandomWords words = RandomCall(random_, call);
      if (word > 0) {
        const RandomWords next = RandomCall(random_, call + kRandomLanes);
#pragma unroll
        for (int w = 0; w < 4; ++w)
          if (w < word) words.word[w] = next.word[w];
      }
#pragma unroll
      for (int w = 0; w < 4; ++w)
        keeps |= static_cast<uint32_t>(words.word[w] >= p_.threshold) << (first + kCycle * ((w - word) & 3));
    }
    return keeps;
  }
  // What a kept probability is multiplied by.
  ACT_DEVICE float Kept(uint32_t keeps, int c) const {
    if constexpr (!Form::kHasDropout) return 1;
    return keeps >> c & 1 ? p_.kept : 0;
  }

 private:
  const AttentionParameters& p_;
  const int32_t query_;
  const float* bias_[Tiles::kRows];
  const uint8_t* mask_[Tiles::kRows];
  RandomStream random_;
  uint64_t first_call_ = 0;    // of the sample
  int64_t first_element_ = 0;  // of the tile in the sample
};

template <class Tiles>
ACT_DEVICE bool AnyOfBlock(bool bit) {
  return OverTeam<Tiles::kThreads>(static_cast<uint32_t>(bit),
                                   [](uint32_t a, uint32_t b) { return a | b; }) != 0;
}

// The softmax of rows whose scores come tile by tile: the largest score so far, and the sum of weights, of which each
// thread of a team has a part. M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018.
template <class Tiles>
struct RunningSoftmax {
  float largest[Tiles::kRows], sum[Tiles::kRows] = {};

  ACT_DEVICE RunningSoftmax() {
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r) largest[r] = -kInfinity;
  }
  // With the scores of row r in a tile: what earlier weights must be multiplied by.
  ACT_DEVICE float Raise(int r, const float (&scores)[Tiles::kColumns]) {
    float most = largest[r];
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c) most = fmaxf(most, scores[c]);
    most = OverTeam<Tiles::kTeam>(most, [](float a, float b) { return fmaxf(a, b); });
    const float before = largest[r];
    largest[r] = most;
    const float factor = before != -kInfinity ? expf(before - most) : most == -kInfinity ? 1.0f : 0.0f;
    sum[r] *= factor;
    return factor;
  }
  // After that: the scores, of keys from `key` on, become weights.
  ACT_DEVICE void ToWeights(const AttentionParameters& p, int r, int32_t key, float (&x)[Tiles::kColumns]) {
    const WeightsOfRow<Tiles> weights(p, largest[r]);
    const int32_t left = p.keys - key - Tiles::Column(0);
#pragma unroll
    for (int c = 0; c < Tiles::kColumns; ++c) {
      x[c] = Tiles::ColumnsOn(c) < left ? weights.Of(x[c]) : 0;
      sum[r] += x[c];
    }
  }
  // Whether a query of the tile has seen no key so far. All threads of the block must ask.
  ACT_DEVICE bool SeesNone(const AttentionParameters& p, int32_t query) const {
    bool none = false;
#pragma unroll
    for (int r = 0; r < Tiles::kRows; ++r)
      none = none || (query + Tiles::Row(r) < p.queries && largest[r] == -kInfinity);
    return AnyOfBlock<Tiles>(none);
  }
  ACT_DEVICE float Normalizer(const AttentionParameters& p, int r) const {
    return NormalizerOf(p, largest[r], SumOverTeam<Tiles::kTeam>(sum[r]));
  }
};

}  // namespace act::cuda
