#include "kernels/nvidia/cudnn_descriptor.h"

#include <algorithm>

namespace act::cuda {

Status CheckCudnn(cudnnStatus_t result, const std::string& call) {
  if (result == CUDNN_STATUS_SUCCESS) return "";
  char text[1024] = "";
  cudnnGetLastErrorString(text, sizeof text);
  return call + ": " + cudnnGetErrorString(result) + (text[0] ? std::string(" (") + text + ")" : "");
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  error_ = CheckCudnn(cudnnBackendCreateDescriptor(type, &handle_), "cudnnBackendCreateDescriptor");
}

Descriptor& Descriptor::Part(cudnnBackendAttributeName_t name, Descriptor part) {
  if (error_.empty()) error_ = part.error_;
  Reference(name, part);
  parts_.push_back(std::move(part));
  return *this;
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void* values) {
  if (error_.empty())
    error_ =
        CheckCudnn(cudnnBackendSetAttribute(handle_, name, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}

Status Descriptor::Finalize() {
  if (error_.empty()) error_ = CheckCudnn(cudnnBackendFinalize(handle_), "cudnnBackendFinalize");
  return error_;
}

std::string Descriptor::GetText(cudnnBackendAttributeName_t name) const {
  int64_t count = 0, written = 0;
  if (cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_CHAR, 0, &count, nullptr) != CUDNN_STATUS_SUCCESS)
    return "";
  std::string text(count, '\0');
  if (cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_CHAR, count, &written, text.data()) !=
      CUDNN_STATUS_SUCCESS)
    return "";
  text.resize(std::min(count, written));
  return text;
}

std::vector<Descriptor> Descriptor::GetParts(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type) const {
  int64_t count = 0;
  std::vector<Descriptor> parts;
  if (cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) !=
      CUDNN_STATUS_SUCCESS)
    return parts;
  for (int64_t i = 0; i < count; ++i) parts.emplace_back(type);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& part : parts) handles.push_back(part.handle());
  int64_t found = 0;
  if (cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &found, handles.data()) !=
      CUDNN_STATUS_SUCCESS)
    found = 0;
  parts.erase(parts.begin() + found, parts.end());
  return parts;
}

}  // namespace act::cuda
