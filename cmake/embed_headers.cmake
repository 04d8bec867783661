# Writes OUTPUT, a C++ file that defines act::cuda::EmbeddedHeaders() (kernels/cuda/embedded.h), from FILES, whose paths are
# relative to ROOT.
set(text "#include \"kernels/cuda/embedded.h\"\n\nnamespace act::cuda {\n\n")
string(APPEND text "const std::vector<std::pair<std::string, std::string>>& EmbeddedHeaders() {\n")
string(APPEND text "  static const std::vector<std::pair<std::string, std::string>> headers = {\n")
foreach(file ${FILES})
  file(READ ${ROOT}/${file} contents)
  string(APPEND text "      {\"${file}\", R\"act_text(${contents})act_text\"},\n")
endforeach()
string(APPEND text "  };\n  return headers;\n}\n\n}  // namespace act::cuda\n")
file(WRITE ${OUTPUT} "${text}")
