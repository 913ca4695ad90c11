#include <cstdio>

int main() {
  std::fputs("tidewheel: no subcommand yet\n", stderr);
  return 2;
}
