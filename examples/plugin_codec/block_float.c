/* Block floating point. The elements of a group share one exponent, which is one byte of metadata. It
 * gives the group's step, a power of two. An element is stored as a whole number of steps, rounded
 * stochastically. So decoding is one multiplication.
 *
 * With B bits an element's number is in -(2^(B-1) - 1) .. 2^(B-1) - 1. The step is the least power of
 * two with which the group's largest element fits. */
#include <act/codec_plugin.h>
#include <math.h>
#include <string.h>

enum { kNotFinite = 255, kExponentBias = 127 };

/* 32 random bits for element i: a hash of the key (splitmix64's finalizer). They are the same in
 * encode and decode. */
static uint32_t RandomBits(const act_codec_key* key, uint32_t i) {
  uint64_t z = key->seed * 0x9E3779B97F4A7C15u + key->step * 0xD1B54A32D192ED03u +
               key->group * 0x8CB92BA72F3D8DD7u + key->tensor * 0xAEF17502108EF2D9u + i;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)(z >> 32);
}

static int Form(act_codec_form* form) {
  if (form->bits < 2) return 0;
  form->metadata_bytes = 1;
  form->group_bytes = form->group_size * form->bits / 8;
  return 1;
}

static void PutBits(uint8_t* payload, uint32_t at, uint32_t bits, uint32_t value) {
  for (uint32_t b = 0; b < bits; ++b, ++at) payload[at / 8] |= (uint8_t)((value >> b & 1u) << (at % 8));
}
static uint32_t GetBits(const uint8_t* payload, uint32_t at, uint32_t bits) {
  uint32_t value = 0;
  for (uint32_t b = 0; b < bits; ++b, ++at) value |= (uint32_t)(payload[at / 8] >> (at % 8) & 1u) << b;
  return value;
}

static void Encode(const act_codec_form* form, const act_codec_key* key, const float* x, uint32_t count,
                   uint8_t* metadata, uint8_t* payload) {
  const int32_t most = (1 << (form->bits - 1)) - 1;
  float largest = 0;
  int finite = 1, exponent = -kExponentBias;
  for (uint32_t i = 0; i < count; ++i) {
    finite &= isfinite(x[i]) != 0;
    largest = fmaxf(largest, fabsf(x[i]));
  }
  memset(payload, 0, (count * form->group_bytes + form->group_size - 1) / form->group_size);
  metadata[0] = kNotFinite;
  if (!finite) return;
  if (largest > 0) frexpf(largest / (float)most, &exponent); /* 2^exponent > largest / most */
  if (exponent > kExponentBias) return; /* the exponent does not fit its byte: treated as infinite */
  if (exponent < -126) exponent = -126;
  metadata[0] = (uint8_t)(exponent + kExponentBias);
  const float steps = ldexpf(1, -exponent);
  for (uint32_t i = 0; i < count; ++i) {
    const float up = (float)(RandomBits(key, i) >> 8) * 0x1p-24f;
    int32_t q = (int32_t)floorf(x[i] * steps + up);
    if (q > most) q = most; /* float rounded the sum up */
    PutBits(payload, i * form->bits, form->bits, (uint32_t)(q + most));
  }
}

static void Decode(const act_codec_form* form, const act_codec_key* key, const uint8_t* metadata,
                   const uint8_t* payload, uint32_t count, float* x) {
  (void)key;
  const int32_t most = (1 << (form->bits - 1)) - 1;
  const float step = metadata[0] == kNotFinite ? NAN : ldexpf(1, metadata[0] - kExponentBias);
  for (uint32_t i = 0; i < count; ++i)
    x[i] = (float)((int32_t)GetBits(payload, i * form->bits, form->bits) - most) * step;
}

const act_codec* act_codec_plugin(uint32_t abi_version) {
  static const act_codec codec = {ACT_CODEC_ABI_VERSION, 1, "block-float", Form, Encode, Decode};
  return abi_version == ACT_CODEC_ABI_VERSION ? &codec : 0;
}
