// Extents and byte counts as polynomials in the batch size N, so that one plan serves every batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace act {

// Upper bound of every extent, element count and byte count (2^60). Arithmetic on int64 extents
// saturates here, so that a hostile file cannot overflow a size. The verifier refuses tensors that
// reach it.
inline constexpr int64_t kTooLarge = int64_t{1} << 60;

int64_t SaturatingAdd(int64_t a, int64_t b);
int64_t SaturatingMul(int64_t a, int64_t b);
// a / b rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }
// The next multiple of `unit`, which is positive. Saturates at kTooLarge.
int64_t RoundUp(int64_t value, int64_t unit);

// extent(N) = fixed + per_batch * N + per_batch2 * N^2.
struct Dim {
  int64_t fixed = 0;
  int64_t per_batch = 0;
  int64_t per_batch2 = 0;

  constexpr Dim() = default;
  constexpr Dim(int64_t f) : fixed(f) {}  // NOLINT: a plain extent is a Dim
  constexpr Dim(int64_t f, int64_t b, int64_t b2 = 0) : fixed(f), per_batch(b), per_batch2(b2) {}

  // The batch axis itself: N.
  static constexpr Dim Batch() { return {0, 1, 0}; }

  bool IsFixed() const { return per_batch == 0 && per_batch2 == 0; }
  // The extent at batch size n >= 0. Saturates at kTooLarge.
  int64_t At(int64_t n) const;
  bool TooLarge() const { return fixed >= kTooLarge || per_batch >= kTooLarge || per_batch2 >= kTooLarge; }

  bool operator==(const Dim&) const = default;
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
// Saturates at kTooLarge. A product of degree above 2 in N saturates too (kTooLarge in per_batch2).
Dim operator*(const Dim& a, const Dim& b);
// a / b where the division is exact for every N (e.g. 512N / 512, 4N / N), otherwise nullopt.
std::optional<Dim> DivideExact(const Dim& a, const Dim& b);

// For example "128", "N", "2N+1", "3N^2".
std::string ToString(const Dim& dim);

}  // namespace act
