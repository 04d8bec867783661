# libact_cuda.so (kernels/nvidia), if CUDA 13 and cuDNN 9 are here: headers and libraries of the driver's interface, NVRTC,
# cuBLASLt and cuDNN. No CUDA compiler and no card is needed to build. They may come from .deps/cuda (make cuda), NVIDIA's
# packages, the distribution, or PyPI's wheels: -DACT_CUDA_ROOT="FOLDER;FOLDER".
set(ACT_CUDA_ROOT "" CACHE STRING "folders with include and lib of CUDA and cuDNN; a list")
file(GLOB installed LIST_DIRECTORIES true /usr/local/cuda /usr/local/cuda-13*)
set(act_cuda_hints ${ACT_CUDA_ROOT} ${CMAKE_SOURCE_DIR}/.deps/cuda $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${installed})

# Wheels and runtime packages have no libNAME.so, but libNAME.so.VERSION.
find_path(ACT_CUDA_INCLUDE cuda.h HINTS ${act_cuda_hints} PATH_SUFFIXES include)
find_path(ACT_CUDA_CCCL nv/target HINTS ${act_cuda_hints} PATH_SUFFIXES include/cccl include)  # CUDA's headers want it
find_path(ACT_CUDNN_INCLUDE cudnn_graph.h HINTS ${act_cuda_hints} PATH_SUFFIXES include)
foreach(library nvrtc.13 cublasLt.13 cudnn.9)
  string(REGEX MATCH "([A-Za-z]+)\\.([0-9]+)" matched ${library})
  string(TOUPPER ACT_${CMAKE_MATCH_1} variable)
  find_library(${variable} NAMES lib${CMAKE_MATCH_1}.so.${CMAKE_MATCH_2} HINTS ${act_cuda_hints}
               PATH_SUFFIXES lib64 lib)
endforeach()

# The number that FILE defines as NAME, or 0.
function(act_defined_number file name result)
  set(${result} 0 PARENT_SCOPE)
  if(EXISTS ${file})
    file(STRINGS ${file} line REGEX "^#define ${name} +[0-9]+")
    if(line MATCHES "([0-9]+)[^0-9]*$")
      set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()
act_defined_number(${ACT_CUDA_INCLUDE}/cuda.h CUDA_VERSION cuda_version)
act_defined_number(${ACT_CUDNN_INCLUDE}/cudnn_version.h CUDNN_MAJOR cudnn_major)
act_defined_number(${ACT_CUDNN_INCLUDE}/cudnn_version.h CUDNN_MINOR cudnn_minor)

set(missing)
foreach(variable NVRTC CUBLASLT CUDNN CUDA_CCCL)
  if(NOT ACT_${variable})
    list(APPEND missing ${variable})
  endif()
endforeach()
if(cuda_version LESS 13000 OR cuda_version GREATER_EQUAL 14000)
  list(APPEND missing "cuda.h of CUDA 13")
endif()
if(NOT cudnn_major EQUAL 9 OR cudnn_minor LESS 12)  # the first that is made for CUDA 13
  list(APPEND missing "cudnn_graph.h of cuDNN 9.12 or later")
endif()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "Without CUDA: no ${missing} (make cuda fetches them)")
else()
  message(STATUS "With CUDA ${cuda_version}, cuDNN ${cudnn_major}.${cudnn_minor}: ${ACT_CUDA_INCLUDE}, ${ACT_CUDNN_INCLUDE}")
  file(GLOB sources CONFIGURE_DEPENDS kernels/nvidia/*.cc)
  file(GLOB texts CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
       kernels/nvidia/act_machine.h kernels/nvidia/std/* kernels/nvidia/cards/*.json)
  act_embed(nvidia_files.cc kernels/nvidia/embedded.h NvidiaFiles ${texts})
  add_library(act_cuda MODULE ${sources} kernels/cuda/problem_text.cc ${CMAKE_BINARY_DIR}/generated/nvidia_files.cc)
  target_include_directories(act_cuda SYSTEM PRIVATE ${ACT_CUDA_INCLUDE} ${ACT_CUDA_CCCL} ${ACT_CUDNN_INCLUDE})
  target_link_libraries(act_cuda PRIVATE ${ACT_NVRTC} ${ACT_CUBLASLT} ${ACT_CUDNN} ${CMAKE_DL_LIBS})
  # It stands beside the programs that load it, and shows nothing but what it exports.
  set_target_properties(act_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
                        CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS act_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
