// The table of subcommands and options: names and help alone. bench/validate.cc gives them meaning.
#include <array>

#include "bench/command_line.h"

#ifndef TIDEWHEEL_VERSION
#define TIDEWHEEL_VERSION "unknown"
#endif

namespace tidewheel::bench {

namespace {

constexpr ValueKind kFlag = ValueKind::kFlag;
constexpr ValueKind kValue = ValueKind::kValue;
constexpr ValueKind kRepeated = ValueKind::kRepeated;

constexpr const char* kFiles = "Files (the options of fs_mark 3.3)";
constexpr const char* kWork = "Work";
constexpr const char* kWhere = "Where it runs";
constexpr const char* kWriteback = "Writeback";
constexpr const char* kFigures = "Figures";
constexpr const char* kComparison = "Comparison";

#define TW_WORKLOAD_OPTIONS                                                                                  \
  OptionSpec{"-d", kRepeated, "DIR",                                                                         \
             "a directory; threads are spread over all of them (needed with --posix; the flat store has "    \
             "no names, there it only counts; default /0, for compare /0 to /7)", kFiles},                   \
  OptionSpec{"-n", kValue, "N",                                                                              \
             "files per thread and loop, 1 to 1000000000 (1000; compare chooses)", kFiles},                  \
  OptionSpec{"-s", kValue, "SIZE", "file size, 0 to 8T (51200; compare 4096)", kFiles},                      \
  OptionSpec{"-w", kValue, "SIZE", "bytes per write, 1 to 1G (16384)", kFiles},                              \
  OptionSpec{"-L", kValue, "N", "loops, 0 to 1000000, and keep the files; 0 and 1 both do one", kFiles},     \
  OptionSpec{"-D", kValue, "N",                                                                              \
             "subdirectories per directory, 2 to 1000000, made once (accepted and without effect on the "    \
             "flat store)", kFiles},                                                                         \
  OptionSpec{"-N", kValue, "N", "files to a subdirectory, then the next, round robin; needs -D", kFiles},    \
  OptionSpec{"-S", kValue, "0..6",                                                                           \
             "sync: 0 none, 1 fsync each file before close, 2 after the loop sync the target and fsync one " \
             "file per thread, 3 after the loop fsync each in reverse order, 4 sync and then as 3, 5 as 3 "  \
             "in creation order, 6 sync and then as 5 (1; compare 0)", kFiles},                              \
  OptionSpec{"-k", kFlag, "", "keep the files (otherwise each thread unlinks its own after the timed part)", \
             kFiles},                                                                                        \
  OptionSpec{"-F", kFlag, "", "loop until the target is full; what was acknowledged is kept", kFiles},       \
  OptionSpec{"-p", kValue, "N", "length of a file's name, 1 to 255 (40)", kFiles},                           \
  OptionSpec{"-r", kValue, "N",                                                                              \
             "random characters at the end of it, 1 to the length of the name (24)", kFiles},                \
  OptionSpec{"-l", kValue, "FILE", "log file, appended (fs_log.txt; compare: none)", kFiles},                \
  OptionSpec{"--phases", kValue, "LIST",                                                                     \
             "create,stat,read,unlink: what is timed, in this order (create)", kWork},                       \
  OptionSpec{"--verify", kFlag, "",                                                                          \
             "at the end read every byte back, after a remount where there is one", kWork},                  \
  OptionSpec{"--zero", kFlag, "", "write zeros instead of a repeatable pattern", kWork},                     \
  OptionSpec{"--seed", kValue, "N", "names and data follow from it, 0 to 9223372036854775807 (1)", kWork}

#define TW_TARGET_OPTIONS                                                                                    \
  OptionSpec{"--flat", kFlag, "",                                                                            \
             "the flat store: extents on the device and nothing else (the default)", kWhere},                \
  OptionSpec{"--posix", kFlag, "",                                                                           \
             "real directories (-d) through system calls: any mounted file system", kWhere},                 \
  OptionSpec{"--image", kValue, "PATH",                                                                      \
             "the device is this file, made if missing (out/default.img)", kWhere},                          \
  OptionSpec{"--size", kValue, "SIZE",                                                                       \
             "size of an image that is made, or of the null device (64G)", kWhere},                          \
  OptionSpec{"--ram", kValue, "SIZE",                                                                        \
             "the device is memory", kWhere},                                                                \
  OptionSpec{"--null", kFlag, "",                                                                            \
             "the device takes its time and drops the data", kWhere},                                        \
  OptionSpec{"--device-bandwidth", kValue, "SIZE",                                                           \
             "at most that many bytes per second (not limited)", kWhere},                                    \
  OptionSpec{"--device-latency", kValue, "TIME", "each request takes that long at least (0)", kWhere}

#define TW_WRITEBACK_OPTIONS                                                                                 \
  OptionSpec{"--memory", kValue, "SIZE",                                                                     \
             "budget for pages and inodes, 16M to what the machine has (1G)", kWriteback},                   \
  OptionSpec{"--background", kValue, "SIZE|P%",                                                              \
             "dirty bytes from which writeback runs (10%; compare 20%)", kWriteback},                        \
  OptionSpec{"--dirty", kValue, "SIZE|P%",                                                                   \
             "dirty bytes at which writers wait (20%; compare 40%)", kWriteback},                            \
  OptionSpec{"--expire", kValue, "TIME",                                                                     \
             "age at which what is dirty is written, 10ms to 24h (30s)", kWriteback},                        \
  OptionSpec{"--interval", kValue, "TIME",                                                                   \
             "how often that is looked for; 0 never, else 10ms to 24h (5s)", kWriteback},                    \
  OptionSpec{"--throttle", kValue, "NAME",                                                                   \
             "hard-limit, linux or delay-curve (hard-limit)", kWriteback},                                   \
  OptionSpec{"--shards", kValue, "N",                                                                        \
             "shards of a list, a power of two, 1 to 128 (the design's own)", kWriteback},                   \
  OptionSpec{"--flushers", kValue, "N",                                                                      \
             "flusher threads, 1 to 64 (the engine's own)", kWriteback},                                     \
  OptionSpec{"--owners", kValue, "N",                                                                        \
             "owners that the directories (-d) are split over, each with dirty lists and flushers of its "   \
             "own: 1 to 64, a divisor of their number; without -d there are as many as it takes (1)",        \
             kWriteback},                                                                                    \
  OptionSpec{"-o", kRepeated, "NAME=VALUE", "mount options of tidefs: not in this version", kWriteback}

constexpr std::array kFsmarkOptions = {
    OptionSpec{"-t", kValue, "N",
               "threads, 1 to 1024: a multiple of the directories, raised to their number (1)", kFiles},
    OptionSpec{"-v", kFlag, "", "minimum, average and maximum of each call", kFiles},
    TW_WORKLOAD_OPTIONS,
    TW_TARGET_OPTIONS,
    OptionSpec{"--design", kValue, "NAME", "dirty-list design (timer-wheel)", kWriteback},
    TW_WRITEBACK_OPTIONS,
    OptionSpec{"--json", kValue, "FILE",
               "figures as JSON; - for standard output, and no text then", kFigures},
    OptionSpec{"--interval-csv", kValue, "FILE", "a row a second, flushed as it is written", kFigures},
    OptionSpec{"--trace", kValue, "FILE",
               "the last 32768 trace events of each thread: as ftrace's lines, or for Perfetto when FILE "
               "ends in .json", kFigures},
};

constexpr std::array kCompareOptions = {
    OptionSpec{"--designs", kValue, "LIST", "designs to compare, or all (all)", kComparison},
    OptionSpec{"--threads", kValue, "LIST", "thread counts (1,16)", kComparison},
    OptionSpec{"-t", kValue, "N", "the same as --threads N", kComparison},
    OptionSpec{"--rounds", kValue, "N", "interleaved rounds, 1 to 1000 (3)", kComparison},
    TW_WORKLOAD_OPTIONS,
    TW_TARGET_OPTIONS,
    TW_WRITEBACK_OPTIONS,
    OptionSpec{"--json", kValue, "FILE",
               "figures as JSON; - for standard output, and no text then", kFigures},
    OptionSpec{"--html", kValue, "FILE", "one page with plots; - for standard output, and no text then",
               kFigures},
    OptionSpec{"--markdown", kValue, "FILE",
               "a row for each design and thread count, appended to this file; a new one gets a head, too",
               kFigures},
};

constexpr const char* kFsmarkFooter =
    "Sizes: 4096, 4k, 1M, 2G, 100T. Times: 500ms, 5s, 2m.\n"
    "Different from fs_mark 3.3, on purpose: Files/sec is by wall clock (fs_mark's sum of per-thread rates\n"
    "is on the line 'sum of threads'); threads are threads of one process, started once; subdirectories\n"
    "are made once, not per file; a name is never used twice (O_EXCL); -s may exceed 2 GiB; -p and -r\n"
    "cannot overrun; every number is checked; one failed thread fails the run; data is a repeatable\n"
    "pattern unless --zero; -S 2, 4 and 6 sync the target, not the machine; -F ends well.\n"
    "Exit status: 0 done, 1 failed, 2 usage. docs/fsmark.md has the rest.";
constexpr const char* kCompareFooter =
    "Runs the workload once per design, thread count and round, rounds interleaved, each run in a process\n"
    "of its own. Unless --device-bandwidth is given, all get one device bandwidth: 40% of the create rate\n"
    "that timer-wheel is first calibrated to, so that all three load points are reached; unless -n is\n"
    "given, the number of files is chosen so that the last of them lasts 1.5 s.\n"
    "Exit status: 0 done, 1 failed, 2 usage. docs/fsmark.md has the rest.";

constexpr const char* kImage = "Image";
constexpr ValueKind kPositional = ValueKind::kPositional;

constexpr std::array kMkfsOptions = {
    OptionSpec{"IMAGE", kPositional, "", "a file, made if missing, or a disk", kImage},
    OptionSpec{"--size", kValue, "SIZE",
               "size of the file system; needed where the image is made (as large as the image is)", kImage},
    OptionSpec{"--ag-count", kValue, "N", "allocation groups (4, or as many as groups of 1T need)", kImage},
    OptionSpec{"--log-size", kValue, "SIZE",
               "size of the log (1/128 of the file system, at most 512M)", kImage},
    OptionSpec{"--prealloc", kFlag, "",
               "write the log once, so that a full host file system cannot take its room away", kImage},
    OptionSpec{"--label", kValue, "TEXT", "a name, at most 31 bytes", kImage},
    OptionSpec{"--force", kFlag, "", "also where the image is not empty: what it holds is lost", kImage},
    OptionSpec{"--json", kValue, "FILE",
               "figures as JSON; - for standard output, and no text then", kFigures},
};
constexpr std::array kDumpOptions = {
    OptionSpec{"IMAGE", kPositional, "", "a file or a disk; only read", kImage},
    OptionSpec{"WHAT", kPositional, "", "super, ag N, inode N, dir N or log", kImage},
    OptionSpec{"N", kPositional, "", "number of the group, inode or directory", kImage},
};
constexpr const char* kMkfsFooter =
    "Makes an empty tidefs. Without --force an image that holds anything but zeros is refused and stays as\n"
    "it is. The first superblock is written last: a crash in between leaves no file system.\n"
    "Exit status: 0 done, 1 failed, 2 usage. docs/format has the layout.";
constexpr const char* kDumpFooter =
    "Prints what is on the image, decoded, and for each block which check it fails. The root directory's\n"
    "inode is named by super. Exit status: 0 printed (also what is damaged), 1 failed, 2 usage.";
constexpr std::array kCrashOptions = {
    OptionSpec{"--workload", kValue, "LIST", "workloads, or all (all)", kWork},
    OptionSpec{"--seed", kValue, "N",
               "of the first run of each, 0 to 9223372036854775807; the next ones count on (1)", kWork},
    OptionSpec{"--runs", kValue, "N", "runs of each workload (as many as --states takes)", kWork},
    OptionSpec{"--states", kValue, "N",
               "states of each workload, distinct by content (100000; with --time alone: no limit)", kWork},
    OptionSpec{"--time", kValue, "TIME", "for all workloads together (no limit)", kWork},
    OptionSpec{"--threads", kValue, "N", "1 to 1024 (one per CPU)", kWork},
    OptionSpec{"--without-recovery", kFlag, "",
               "check what crashes leave as it is: shows that the check can fail", kWork},
    OptionSpec{"--replay", kValue, "STRING", "one state again, as a failure printed it", kWork},
    OptionSpec{"--json", kValue, "FILE",
               "figures as JSON; - for standard output, and no text then", kFigures},
};
constexpr const char* kCrashFooter =
    "Records each run's writes and flushes, cuts it before each of them, and recovers and checks what a\n"
    "device with a volatile cache may hold then: every subset of the writes that no flush covers, up to ten\n"
    "of them, samples beyond; torn at 512 bytes; and the same again for each recovery. The same options\n"
    "explore the same states, except under --time. A failure prints a string for --replay.\n"
    "Workloads: toy, mock, trans. Times: 500ms, 5s, 2m.\n"
    "Exit status: 0 no state failed, 1 one did, 2 usage. docs/crash-model.md has the rest.";

constexpr std::array kSubcommands = {
    SubcommandSpec{"fsmark", "one run of the fs_mark workload", kFsmarkOptions, kFsmarkFooter},
    SubcommandSpec{"compare", "the same workload over several designs and thread counts", kCompareOptions,
                   kCompareFooter},
    SubcommandSpec{"mkfs", "makes a tidefs on an image or a disk", kMkfsOptions, kMkfsFooter},
    SubcommandSpec{"dump", "prints what is on a tidefs image, decoded", kDumpOptions, kDumpFooter},
    SubcommandSpec{"crash", "every crash of a workload's runs, recovered and checked", kCrashOptions,
                   kCrashFooter},
};

}  // namespace

std::span<const SubcommandSpec> subcommand_specs() { return kSubcommands; }

std::string_view program_version() { return TIDEWHEEL_VERSION; }

std::string not_available_line(std::string_view subcommand) {
  for (const std::string_view later :
       {"fsck", "mount", "reproduce", "top", "freeze", "thaw", "replay", "lab"}) {
    if (subcommand == later) {
      return std::string(later) + ": not in this version, which has fsmark, compare, mkfs, dump and crash; "
                                  "the rest of tidefs comes later";
    }
  }
  return {};
}

}  // namespace tidewheel::bench
