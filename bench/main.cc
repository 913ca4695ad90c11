#include "bench/outputs.h"
#include "bench/program.h"

int main(int argc, char** argv) {
  tidewheel::bench::keep_standard_descriptors();
  tidewheel::bench::take_failed_writes_as_errors();
  tidewheel::bench::end_quietly_on_exceptions();
  return tidewheel::bench::run_program({argv, argv + argc});
}
