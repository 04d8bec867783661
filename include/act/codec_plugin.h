/* A codec of your own for actc and actrun: a shared library with one function, act_codec_plugin.
 *
 *   actc model.onnx -O L3 --plugin=libmine.so -o plan.bin     codes what the level codes lossily by it
 *   actrun plan.bin --plugin=libmine.so                       the plan holds its name and version
 *
 * A codec works on groups: runs of group_size float32 elements of one sample, of which the last may be
 * shorter. Groups are independent of each other and are encoded and decoded in any order, by several threads
 * at once: the functions below keep no state and allocate nothing. A group becomes `metadata_bytes` bytes and
 * ceil(count * group_bytes / group_size) bytes of payload, exactly. The memory report counts them, and
 * zeros that align the metadata and the payload of each sample to 16 bytes.
 *
 * docs/adding_a_codec.md goes through an example. */
#ifndef ACT_CODEC_PLUGIN_H_
#define ACT_CODEC_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything below changes. A library of another version is refused. */
#define ACT_CODEC_ABI_VERSION 1u

/* The sizes of a codec at a number of bits. */
typedef struct act_codec_form {
  uint32_t bits;           /* asked for: 1..8 an element, by the level or --bits */
  uint32_t group_size;     /* asked for: 64, 128, 256, 512 or 1024 elements; may be set to another of these */
  uint32_t metadata_bytes; /* set: of a group, at most 64 */
  uint32_t group_bytes;    /* set: payload of a full group, at most 4 * group_size */
} act_codec_form;

/* What is the same for the encode and the decode of a group and differs otherwise: a key for random numbers.
 */
typedef struct act_codec_key {
  uint64_t seed, step; /* of the run */
  uint64_t group;      /* number of the group in its tensor */
  uint32_t tensor;     /* number of the stored tensor */
} act_codec_key;

typedef struct act_codec {
  uint32_t abi_version; /* ACT_CODEC_ABI_VERSION */
  uint32_t version;     /* of the codes: a plan runs with the version that it was compiled with */
  const char* name;     /* letters, digits, '-' and '_', at most 64 */

  /* Fills in metadata_bytes and group_bytes; 0 where the codec has no such number of bits. Is asked when a
   * plan is compiled and again when it is run, and answers the same. */
  int (*form)(act_codec_form* form);

  /* count: 1..group_size elements, in x. Writes all of metadata and payload. x may hold NaN and infinities.
   */
  void (*encode)(const act_codec_form* form, const act_codec_key* key, const float* x, uint32_t count,
                 uint8_t* metadata, uint8_t* payload);

  /* Writes count elements; reads no more than encode wrote. Its mean over keys is to be the element itself
   * (an unbiased codec), or gradients are wrong on average. */
  void (*decode)(const act_codec_form* form, const act_codec_key* key, const uint8_t* metadata,
                 const uint8_t* payload, uint32_t count, float* x);
} act_codec;

#if defined(_WIN32)
#define ACT_CODEC_EXPORT __declspec(dllexport)
#else
#define ACT_CODEC_EXPORT __attribute__((visibility("default")))
#endif

/* The entry point. abi_version: the caller's; a library that knows it not returns null. What is returned
 * lives as long as the library. */
ACT_CODEC_EXPORT const act_codec* act_codec_plugin(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif /* ACT_CODEC_PLUGIN_H_ */
