#include <cstring>

#include "bench/fsmark.h"
#include "bench/image_tools.h"
#include "bench/numbers.h"
#include "bench/outputs.h"
#include "fs/block/file_device.h"
#include "fs/tools/dump.h"

namespace tidewheel::bench {

std::variant<DumpOptions, UsageError> dump_options(const Arguments& arguments) {
  constexpr const char* kWhat = "super, ag N, inode N, dir N or log";
  DumpOptions options;
  const std::string* image = arguments.value("IMAGE");
  if (image == nullptr || image->empty()) {
    return UsageError{std::string("dump: which image? 'tidewheel dump IMAGE WHAT', where WHAT is ") + kWhat};
  }
  options.image = *image;
  const std::string* what = arguments.value("WHAT");
  if (what == nullptr) return UsageError{std::string("dump: what of it? ") + kWhat};
  using What = DumpOptions::What;
  constexpr std::pair<const char*, What> kNames[] = {{"super", What::kSuper},
                                                     {"ag", What::kGroup},
                                                     {"inode", What::kInode},
                                                     {"dir", What::kDir},
                                                     {"log", What::kLog}};
  bool known = false;
  for (const auto& [name, kind] : kNames) {
    if (*what != name) continue;
    options.what = kind;
    known = true;
  }
  if (!known) return UsageError{"dump: '" + *what + "' is not accepted: " + kWhat};
  const bool numbered =
      options.what == What::kGroup || options.what == What::kInode || options.what == What::kDir;
  const std::string* number = arguments.value("N");
  if (!numbered && number != nullptr)
    return UsageError{"dump: '" + *number + "': " + *what + " takes no number"};
  if (numbered) {
    const auto value = number == nullptr ? std::nullopt : parse_count(*number);
    if (!value) {
      return UsageError{"dump: " + *what + " takes a number, as '" + *what + " 0'" +
                        (number == nullptr ? "" : ", not '" + *number + "'")};
    }
    options.number = *value;
  }
  return options;
}

int run_dump(const DumpOptions& options) {
  auto opened = FileDevice::open({.path = options.image, .create = false, .read_only = true});
  if (!opened) {
    const Error error = opened.error();
    print_error(options.image + ": " +
                (error.code == Reason::kSystem && error.detail != 0
                     ? std::strerror(static_cast<int>(error.detail))
                     : std::string(error.sentence())));
    return 1;
  }
  BlockDevice& device = **opened;
  tools::Dump dump;
  switch (options.what) {
    case DumpOptions::What::kSuper: dump = tools::dump_super(device); break;
    case DumpOptions::What::kGroup: dump = tools::dump_group(device, options.number); break;
    case DumpOptions::What::kInode: dump = tools::dump_inode(device, options.number); break;
    case DumpOptions::What::kDir: dump = tools::dump_dir(device, options.number); break;
    case DumpOptions::What::kLog: dump = tools::dump_log(device); break;
  }
  if (dump.damaged != 0) dump.text += std::to_string(dump.damaged) + " damaged\n";
  if (const std::string why = write_text("-", dump.text); !why.empty()) {
    print_error(why);
    return 1;
  }
  if (!dump.error.empty()) print_error(options.image + ": " + dump.error);
  return dump.error.empty() ? 0 : 1;
}

}  // namespace tidewheel::bench
