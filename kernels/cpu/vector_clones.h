// Compiles plain loops for several instruction sets in one binary. The loader picks the machine's
// best.
#pragma once

// Put this before a function of simple loops. Code that OpenMP outlines is not cloned, so keep the
// parallel loop outside of it. Sanitizers cannot run before the loader's choice, and compilers
// other than GCC use other names. Both get a single version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ACT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ACT_VECTOR_CLONES
#endif

// For a template that such functions share: without it, its loops would be compiled for the baseline.
#define ACT_IN_CLONES [[gnu::always_inline]] inline
