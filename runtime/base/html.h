// Pages of one file, which need nothing else: what they share.
#pragma once

#include <string>

namespace act {

// Text for HTML, in which <, > and & are letters.
std::string HtmlEscaped(const std::string& text);

// From the doctype to <body>, with the styles of tables and pictures, in light and dark colours as the
// reader's system prefers. Pictures use the colours --fg, --muted, --grid, --line, --band and --mark.
std::string HtmlHead(const std::string& title);

}  // namespace act
