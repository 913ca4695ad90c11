// bench/program.h: the program: words in, exit status out.
#pragma once
#include <string>
#include <vector>

namespace tidewheel::bench {

// `words` begins with the program's own name. 0 done, 1 failed, 2 usage.
int run_program(std::vector<std::string> words);

}  // namespace tidewheel::bench
