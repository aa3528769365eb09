// Golden files: what the generator printed when somebody last looked. A missing file is a failure, as a different one is; files are
// written only when RGEN_UPDATE_GOLDEN=1 is in the environment of the test.
#pragma once
#include <string>

namespace rgen::test {

/// "" if the file holds `text`; else what differs first, in lines with their neighbours, and how to accept it.
std::string golden_difference(const std::string& file, const std::string& text);

}  // namespace rgen::test
