/* A codec of 1 byte an element that breaks one promise of include/act/codec_plugin.h: ACT_FAULT says which.
 */
#include <string.h>

#include "include/act/codec_plugin.h"

enum {
  kNone,
  kAbi,
  kUnknownAbi,
  kName,
  kNoFunction,
  kTooLarge,
  kMetadataPastEnd,
  kPayloadPastEnd,
  kUnwritten,
  kForgets,
  kReadsPastEnd,
  kDecodesPastEnd,
  kLate, /* writes past its end, but not in the trial, whose keys have seed 1 */
  kOtherVersion,
  kOtherSizes
};

static int Form(act_codec_form* form) {
  form->metadata_bytes = 4;
  form->group_bytes = form->group_size * (ACT_FAULT == kOtherSizes ? 2 : 1);
  if (ACT_FAULT == kTooLarge) form->group_bytes = 0xFFFFFFFFu;
  return 1;
}

static void Encode(const act_codec_form* form, const act_codec_key* key, const float* x, uint32_t count,
                   uint8_t* metadata, uint8_t* payload) {
  static int calls;
  const uint32_t bytes = (count * form->group_bytes + form->group_size - 1) / form->group_size;
  memcpy(metadata, x, 4);
  memset(payload, 7, bytes);
  if (ACT_FAULT == kMetadataPastEnd) metadata[4] = 1;
  if (ACT_FAULT == kPayloadPastEnd || (ACT_FAULT == kLate && key->seed != 1)) payload[bytes] = 1;
  if (ACT_FAULT == kForgets) payload[0] = (uint8_t)calls++;
}
static void EncodePart(const act_codec_form* form, const act_codec_key* key, const float* x, uint32_t count,
                       uint8_t* metadata, uint8_t* payload) {
  (void)form, (void)key, (void)count;
  memcpy(metadata, x, 4);
  payload[0] = 7;
}

static void Decode(const act_codec_form* form, const act_codec_key* key, const uint8_t* metadata,
                   const uint8_t* payload, uint32_t count, float* x) {
  (void)key;
  for (uint32_t i = 0; i < count; ++i) memcpy(x + i, metadata, 4);
  if (ACT_FAULT == kReadsPastEnd) x[0] = (float)payload[form->group_bytes];
  if (ACT_FAULT == kDecodesPastEnd) x[count] = 0;
}

const act_codec* act_codec_plugin(uint32_t abi_version) {
  static const act_codec codec = {
      ACT_FAULT == kAbi ? 77 : ACT_CODEC_ABI_VERSION,    ACT_FAULT == kOtherVersion ? 2 : 1,
      ACT_FAULT == kName ? "no name: spaces" : "faulty", Form,
      ACT_FAULT == kUnwritten ? EncodePart : Encode,     ACT_FAULT == kNoFunction ? 0 : Decode};
  return abi_version == ACT_CODEC_ABI_VERSION && ACT_FAULT != kUnknownAbi ? &codec : 0;
}
