# Writes OUTPUT, a C++ file that defines act::cuda::FUNCTION(), declared in HEADER: paths and texts of FILES, whose paths are
# relative to ROOT.
set(text "#include \"${HEADER}\"\n\nnamespace act::cuda {\n\n")
string(APPEND text "const std::vector<std::pair<std::string, std::string>>& ${FUNCTION}() {\n")
string(APPEND text "  static const std::vector<std::pair<std::string, std::string>> files = {\n")
foreach(file ${FILES})
  file(READ ${ROOT}/${file} contents)
  string(APPEND text "      {\"${file}\", R\"act_text(${contents})act_text\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace act::cuda\n")
file(WRITE ${OUTPUT} "${text}")
