// Plain loops compiled for several instruction sets in one binary; the loader picks the best the machine has.
#pragma once

// Put before a function of simple loops. Code that OpenMP outlines is not cloned: keep the parallel loop
// outside. Sanitizers cannot run before the loader's choice, and other compilers than GCC take other names:
// they get one version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ACT_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ACT_VECTOR_CLONES
#endif
