// The order of the elements of codes that are decoded as bytes.
#pragma once

#include <cstddef>

namespace act {

// Which of four vectors' elements byte j of a vector is, if a vector has `lanes` floats. Within each 16 bytes,
// interleaving them with others makes the words of two vectors, and interleaving these with others the numbers of
// four: 4 bytes make 4 numbers of one vector.
constexpr size_t ElementOfByte(size_t j, size_t lanes) { return j % 16 / 4 * lanes + j / 16 * 4 + j % 4; }

}  // namespace act
