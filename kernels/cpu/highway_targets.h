// The instruction sets for which our Highway code is compiled: AVX-512, AVX2 and a portable
// fallback. Each additional one costs compile time. Include before hwy/foreach_target.h.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
