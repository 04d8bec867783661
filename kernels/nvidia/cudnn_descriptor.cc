#include "kernels/nvidia/cudnn_descriptor.h"

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

Descriptor& Descriptor::Parts(cudnnBackendAttributeName_t name, std::vector<Descriptor> parts) {
  std::vector<cudnnBackendDescriptor_t> handles;
  handles.reserve(parts.size());
  for (Descriptor& part : parts) {
    if (error_.empty()) error_ = part.error_;
    handles.push_back(part.handle_);
    parts_.push_back(std::move(part));
  }
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(handles.size()), handles.data());
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

std::vector<Descriptor> Descriptor::GetParts(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type, int64_t most) const {
  int64_t count = most;
  std::vector<Descriptor> parts;
  if (!most && cudnnBackendGetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) !=
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
