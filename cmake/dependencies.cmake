# Every library from outside, and for each one that is missing, the package that brings it.
function(act_missing what how)
  message(FATAL_ERROR "${what} was not found. Install it with: ${how}\n(scripts/setup.sh installs everything.)")
endfunction()

list(APPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/.deps)

foreach(version "" 22 21 20 19 18 17 16)
  if(NOT LLVM_FOUND)
    find_package(LLVM ${version} QUIET CONFIG HINTS /usr/lib/llvm-${version}/lib/cmake/llvm)
    if(LLVM_FOUND AND LLVM_VERSION_MAJOR LESS 16)
      set(LLVM_FOUND FALSE)
      unset(LLVM_DIR CACHE)
    endif()
  endif()
endforeach()
if(NOT LLVM_FOUND)
  act_missing("LLVM 16 or later" "apt-get install llvm-19-dev")
endif()
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
set(ACT_LLVM_SUPPORT LLVMSupport)

find_package(OpenMP REQUIRED)
find_package(dnnl 3 QUIET CONFIG)
if(NOT dnnl_FOUND)
  act_missing("oneDNN 3.x" "scripts/setup.sh, or apt-get install libdnnl-dev where that is version 3")
endif()

find_library(ACT_HIGHWAY hwy)
if(NOT ACT_HIGHWAY)
  act_missing("Highway" "apt-get install libhwy-dev")
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  find_path(ACT_XBYAK_INCLUDE xbyak/xbyak.h)
  if(NOT ACT_XBYAK_INCLUDE)
    act_missing("Xbyak" "apt-get install libxbyak-dev")
  endif()
endif()

find_library(ACT_MIMALLOC mimalloc)
if(NOT ACT_MIMALLOC)
  act_missing("mimalloc" "apt-get install libmimalloc-dev")
endif()

find_package(Protobuf QUIET)
if(NOT Protobuf_FOUND)
  act_missing("protobuf" "apt-get install libprotobuf-dev protobuf-compiler")
endif()
find_file(ACT_ONNX_PROTO onnx-ml.proto PATHS ${CMAKE_SOURCE_DIR}/.deps/proto NO_DEFAULT_PATH)
if(NOT ACT_ONNX_PROTO)
  act_missing("onnx-ml.proto (ONNX 1.16 or later)" "scripts/setup.sh")
endif()
set(generated ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated}/onnx)
add_custom_command(
  OUTPUT ${generated}/onnx/onnx-ml.pb.cc ${generated}/onnx/onnx-ml.pb.h
  COMMAND ${CMAKE_COMMAND} -E copy ${ACT_ONNX_PROTO} ${generated}/onnx/onnx-ml.proto
  COMMAND protobuf::protoc --proto_path=${generated} --cpp_out=${generated} onnx/onnx-ml.proto
  DEPENDS ${ACT_ONNX_PROTO} VERBATIM)
set(ACT_ONNX_PROTO_SOURCES ${generated}/onnx/onnx-ml.pb.cc)

find_program(FLATC flatc)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
if(NOT FLATC OR NOT FLATBUFFERS_INCLUDE)
  act_missing("FlatBuffers" "apt-get install flatbuffers-compiler libflatbuffers-dev")
endif()
foreach(schema runtime/plan/plan compiler/import/file/ort_checkpoint)
  get_filename_component(name ${schema} NAME)
  add_custom_command(
    OUTPUT ${generated}/${name}_generated.h
    COMMAND ${FLATC} --cpp -o ${generated} ${CMAKE_SOURCE_DIR}/${schema}.fbs
    DEPENDS ${CMAKE_SOURCE_DIR}/${schema}.fbs VERBATIM)
  add_custom_target(act_${name}_schema DEPENDS ${generated}/${name}_generated.h)
endforeach()
