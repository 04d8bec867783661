// The instruction sets for which our Highway code is compiled: AVX-512, AVX2 and a portable
// fallback. Each additional one costs compile time. Include before hwy/foreach_target.h.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

// The fallback is HWY_SCALAR with every compiler. Highway would take HWY_EMU128 with clang and from GCC 12.3 on: other
// code than the tests run with older compilers, and clang's sanitizers need minutes for one file of it.
#define HWY_BROKEN_EMU128 1
