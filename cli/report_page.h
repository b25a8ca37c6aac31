// The page of `boxcar report`: one HTML file that contains its style, script and document and loads nothing
// else. Its parts are in cli/report/ and are compiled into the program, with D3, which draws it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace boxcar::cli {

// The document as text between <script> and </script>: still JSON, but with no "<" that could end the
// element, no U+2028 or U+2029, and only ASCII. Invalid UTF-8 becomes U+FFFD.
std::string script_json(const nlohmann::ordered_json& document);

// As text of an element or in an attribute's quotes.
std::string escape_html(std::string_view text);

// Compiled in, from cli/report/; the library is D3, and empty if the build did not find it.
struct PageParts {
  std::string_view html, style, license, library, script;
};
PageParts page_parts();       // of a plan
PageParts runs_page_parts();  // of a file of runs (report_runs.h)

// `title` is any text.
std::string report_page(const std::string& title, const nlohmann::ordered_json& document,
                        const PageParts& parts = page_parts());

// Throws Error (cannot run) in a build without the library.
void check_page_library();

}  // namespace boxcar::cli
