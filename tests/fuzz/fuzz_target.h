// A fuzz target is one file tests/fuzz/NAME_fuzz.cc with LLVMFuzzerTestOneInput, and its corpus is
// tests/fuzz/corpus/NAME. These are libFuzzer's names, so that a target runs under libFuzzer and under
// the driver of tests/fuzz/standalone.cc (tests/fuzz/README.md).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Runs one input to its end, whatever its bytes are. Returns 0, or -1 if the input is not worth keeping.
// A fault is a crash, an abort, a report of a sanitizer, more time or more memory than the driver allows.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Optional. Runs once, before the first input.
int LLVMFuzzerInitialize(int* argc, char*** argv);

// Optional. Changes the input in place and returns its new size, at most max_size. The same seed makes the
// same change.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

// The driver's own change of bytes, for custom mutators to call.
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

}  // extern "C"
