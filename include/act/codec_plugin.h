/* A codec of your own for actc and actrun: a shared library with one function, act_codec_plugin.
 *
 *   actc model.onnx -O L3 --plugin=libmine.so -o plan.bin     it replaces the level's lossy codes
 *   actrun plan.bin --plugin=libmine.so                       the plan holds its name and version
 *
 * A codec works on groups: runs of group_size float32 elements of one sample. The last group of a
 * sample may be shorter. Groups are independent of each other. They are encoded and decoded in any
 * order, by several threads at once, so the functions below must keep no state and allocate
 * nothing. A group takes exactly `metadata_bytes` bytes of metadata and
 * ceil(count * group_bytes / group_size) bytes of payload. The memory report counts these bytes,
 * and the zeros that align the metadata and the payload of each sample to 16 bytes.
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
  uint32_t group_size;     /* asked for: 64, 128, 256, 512 or 1024; may be set to another one */
  uint32_t metadata_bytes; /* set: of a group, at most 64 */
  uint32_t group_bytes;    /* set: payload of a full group, at most 4 * group_size */
} act_codec_form;

/* A key for random numbers. It is the same when a group is encoded and when it is decoded, and
 * differs between groups, tensors and steps. */
typedef struct act_codec_key {
  uint64_t seed, step; /* of the run */
  uint64_t group;      /* number of the group in its tensor */
  uint32_t tensor;     /* number of the stored tensor */
} act_codec_key;

typedef struct act_codec {
  uint32_t abi_version; /* ACT_CODEC_ABI_VERSION */
  uint32_t version;     /* of the codes: a plan runs only with the version it was compiled with */
  const char* name;     /* letters, digits, '-' and '_', at most 64 */

  /* Fills in metadata_bytes and group_bytes and returns nonzero. Returns 0 if the codec does not
   * support that number of bits. It is called when a plan is compiled and again when it is run, and
   * must answer the same. */
  int (*form)(act_codec_form* form);

  /* Encodes the `count` elements of x, 1..group_size of them. Must write all of metadata and
   * payload. x may hold NaN and infinities. */
  void (*encode)(const act_codec_form* form, const act_codec_key* key, const float* x, uint32_t count,
                 uint8_t* metadata, uint8_t* payload);

  /* Writes `count` elements. Must read no more than encode wrote. The mean of a decoded element
   * over keys should be the element itself (an unbiased codec): otherwise gradients are wrong on
   * average. */
  void (*decode)(const act_codec_form* form, const act_codec_key* key, const uint8_t* metadata,
                 const uint8_t* payload, uint32_t count, float* x);
} act_codec;

#if defined(_WIN32)
#define ACT_CODEC_EXPORT __declspec(dllexport)
#else
#define ACT_CODEC_EXPORT __attribute__((visibility("default")))
#endif

/* The entry point. `abi_version` is the caller's. A library that does not support it returns null.
 * The returned codec lives as long as the library. */
ACT_CODEC_EXPORT const act_codec* act_codec_plugin(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif /* ACT_CODEC_PLUGIN_H_ */
