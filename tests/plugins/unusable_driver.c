// A libcuda.so.1 that cannot be used, in one of several ways: ACT_FAULT is the place of one in this list. It has no more
// functions than those that are called before that is found out.
enum Fault { kNoVersion, kTooOld, kNoCard, kDoesNotStart, kLacksFunctions };

#define ACT_FUNCTION __attribute__((visibility("default"))) int

ACT_FUNCTION cuDriverGetVersion(int* version) {
  *version = ACT_FAULT == kTooOld ? 12080 : 13000;
  return ACT_FAULT == kNoVersion ? 1 : 0;
}
ACT_FUNCTION cuInit(unsigned flags) {
  (void)flags;
  return ACT_FAULT == kNoCard ? 100 : ACT_FAULT == kDoesNotStart ? 803 : 0;
}
ACT_FUNCTION cuGetErrorName(int error, const char** name) {
  *name = error == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "another";
  return 0;
}
ACT_FUNCTION cuGetErrorString(int error, const char** text) {
  *text = error == 803 ? "system has unsupported display driver / cuda driver combination" : "another";
  return 0;
}
