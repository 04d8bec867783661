// Philox4x32-10 over 16 calls at a time. Included once per instruction set.

// NOLINTNEXTLINE: the guard toggles, as in Highway's own -inl headers.
#if defined(ACT_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ACT_RANDOM_INL_H_
#undef ACT_RANDOM_INL_H_
#else
#define ACT_RANDOM_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/math/random.h"

HWY_BEFORE_NAMESPACE();
namespace act::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// words[16 w + l] = word w of call first_call + l.
HWY_INLINE void RandomRow(const RandomStream& random, uint64_t first_call, uint32_t* words) {
  for (size_t lane = 0; lane < kRandomLanes; ++lane) {
    const RandomWords call = RandomCall(random, first_call + lane);
    for (size_t w = 0; w < 4; ++w) words[16 * w + lane] = call.word[w];
  }
}

#else

// Four counter words of several calls, each in the low half of a 64-bit lane. The upper halves are
// undefined: a 32 x 32 bit multiplication reads only the low halves, so nothing has to be masked
// or moved.
template <class V64>
struct PhiloxState {
  V64 c0, c1, c2, c3;
};

template <class D64, class V64 = hwy::HWY_NAMESPACE::Vec<D64> >
HWY_INLINE void PhiloxRound(D64 d64, uint32_t key0, uint32_t key1, PhiloxState<V64>& s) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Repartition<uint32_t, D64> d32;
  const V64 p0 = hn::MulEven(hn::BitCast(d32, s.c0), hn::Set(d32, kPhiloxMultiplier0));
  const V64 p1 = hn::MulEven(hn::BitCast(d32, s.c2), hn::Set(d32, kPhiloxMultiplier2));
  s.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), s.c1), hn::Set(d64, uint64_t{key0}));
  s.c1 = p1;
  s.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), s.c3), hn::Set(d64, uint64_t{key1}));
  s.c3 = p0;
}

// words[16 w + l] = word w of call first_call + l.
HWY_INLINE void RandomRow(const RandomStream& random, uint64_t first_call, uint32_t* words) {
  namespace hn = hwy::HWY_NAMESPACE;
  const HWY_CAPPED(uint32_t, 16) d32;
  const hn::Repartition<uint64_t, decltype(d32)> d64;
  for (size_t lane = 0; lane < kRandomLanes; lane += hn::Lanes(d32)) {
    // Even and odd calls are two states. Together they fill the 32-bit lanes in order.
    PhiloxState<hn::Vec<decltype(d64)> > even, odd;
    even.c0 =
        hn::Add(hn::Set(d64, (first_call + lane) & 0xFFFFFFFFu), hn::Add(hn::Iota(d64, 0), hn::Iota(d64, 0)));
    odd.c0 = hn::Add(even.c0, hn::Set(d64, uint64_t{1}));
    even.c1 = odd.c1 = hn::Set(d64, first_call >> 32);
    even.c2 = odd.c2 = hn::Set(d64, random.step & 0xFFFFFFFFu);
    even.c3 = odd.c3 = hn::Set(d64, uint64_t{random.stream});
    uint32_t key0 = static_cast<uint32_t>(random.seed), key1 = static_cast<uint32_t>(random.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      PhiloxRound(d64, key0, key1, even);
      PhiloxRound(d64, key0, key1, odd);
      key0 += kPhiloxKeyStep0;
      key1 += kPhiloxKeyStep1;
    }
    const auto store = [&](int word, auto e, auto o) HWY_ATTR {
      const auto both = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(o)), hn::BitCast(d32, e));
      hn::StoreU(both, d32, words + 16 * word + lane);
    };
    store(0, even.c0, odd.c0);
    store(1, even.c1, odd.c1);
    store(2, even.c2, odd.c2);
    store(3, even.c3, odd.c3);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace act::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ACT_RANDOM_INL_H_
