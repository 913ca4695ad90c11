#include "bench/program.h"

int main(int argc, char** argv) { return tidewheel::bench::run_program({argv, argv + argc}); }
