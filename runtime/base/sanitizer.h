// ACT_ADDRESS_SANITIZER is defined where the file is compiled with the address sanitizer, by either compiler.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ACT_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ACT_ADDRESS_SANITIZER
#endif
#endif
