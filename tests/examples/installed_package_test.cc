// What cmake --install gives, used as a stranger does: each example is built outside the tree, once with
// find_package and once with pkg-config and the compiler alone, and run. Of the build that this test belongs
// to, and of build/release when tests/run has just built that too.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/source_text.h"

namespace {

namespace filesystem = std::filesystem;
using tidewheel::blocks_of;

struct Outcome {
  int status = -1;
  std::string text;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char part[4096];
  while (const std::size_t n = fread(part, 1, sizeof(part), pipe)) outcome.text.append(part, n);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

testing::AssertionResult succeeds(const std::string& command) {
  const Outcome outcome = run(command);
  if (outcome.status == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << command << "\nstatus " << outcome.status << "\n" << outcome.text;
}

std::string cached(const filesystem::path& build, const std::string& name) {
  std::ifstream in(build / "CMakeCache.txt");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return line.substr(line.find('=') + 1);
  }
  return "";
}

// Which library each example links; all examples are here.
struct Example {
  const char* name;
  const char* library;
  const char* arguments;  // null: it is built, and not run (its own test runs it)
};
constexpr Example kExamples[] = {
    {"upload_scheduler", "writeback", ""},
    {"page_cache_experiment", "inode", " >timeline.csv"},
    {"hit_ratios", "inode", nullptr}};

class InstalledPackage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    build_ = GetParam()[0] == '.' ? filesystem::path(TW_BINARY_DIR)
                                  : filesystem::path(TW_BINARY_DIR).parent_path() / GetParam();
    char pattern[] = "/tmp/tidewheel-installed-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    work_ = pattern;
    prefix_ = work_ / "prefix";
    compiler_ = cached(build_, "CMAKE_CXX_COMPILER");
    ASSERT_TRUE(succeeds("cmake --install " + build_.string() + " --component development --prefix " +
                         prefix_.string()));
    filesystem::create_directory(work_ / "examples");
    for (const Example& example : kExamples) {
      const std::string file = std::string(example.name) + ".cc";
      filesystem::copy_file(filesystem::path(TW_SOURCE_DIR) / "tests/examples" / file,
                            work_ / "examples" / file);
    }
    pkg_config_ = "PKG_CONFIG_PATH=" + (prefix_ / "lib/pkgconfig").string() + " pkg-config";
  }
  void TearDown() override {
    if (!work_.empty()) filesystem::remove_all(work_);
  }
  std::string compile(const std::string& library, const std::string& source, const std::string& extra = "") {
    return compiler_ + " -O0 -Wall -Wextra -Werror " + extra + " " + (work_ / source).string() + " -o " +
           (work_ / "program").string() + " $(" + pkg_config_ + " --cflags --libs tidewheel-" + library + ")";
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream out(work_ / name);
    out << text;
  }

  filesystem::path build_, work_, prefix_;
  std::string compiler_, pkg_config_;
};

// Folders of the names that ours have stand beside it: the program's own, and first on the include path.
TEST_P(InstalledPackage, BuildsTheExamplesWithFindPackage) {
  std::string text =
      "cmake_minimum_required(VERSION 3.25)\nproject(stranger LANGUAGES CXX)\nset(CMAKE_CXX_EXTENSIONS OFF)\n"
      "find_package(tidewheel 0.1 REQUIRED)\n"
      "foreach(floor base timerwheel writeback inode fs)\n"
      "  if(NOT TARGET tidewheel::${floor})\n    message(FATAL_ERROR \"no tidewheel::${floor}\")\n  endif()\n"
      "endforeach()\n";
  for (const Example& example : kExamples) {
    const std::string name = example.name;
    text += "add_executable(" + name + " examples/" + name + ".cc)\ntarget_include_directories(" + name +
            " BEFORE PRIVATE ${CMAKE_SOURCE_DIR})\ntarget_link_libraries(" + name + " PRIVATE tidewheel::" +
            example.library + ")\n";
  }
  write("CMakeLists.txt", text);
  for (const char* folder : {"base", "writeback", "inode"}) filesystem::create_directory(work_ / folder);
  for (const char* file : {"base/clock.h", "base/sync.h", "writeback/engine.h", "inode/inode.h"}) {
    write(file, "#error \"the stranger's own header\"\n");
  }
  const std::string out = (work_ / "out").string();
  ASSERT_TRUE(succeeds("cmake -G Ninja -S " + work_.string() + " -B " + out + " -DCMAKE_PREFIX_PATH=" +
                       prefix_.string() + " -DCMAKE_CXX_COMPILER=" + compiler_));
  ASSERT_TRUE(succeeds("cmake --build " + out + " -j2"));
  for (const Example& example : kExamples) {
    if (example.arguments == nullptr) continue;
    EXPECT_TRUE(succeeds("cd " + out + " && ./" + example.name + example.arguments));
  }
}

// The text of docs/embedding.md, as it stands there.
TEST_P(InstalledPackage, BuildsByWhatTheDocumentSays) {
  const std::vector<std::string> lists = blocks_of("docs/embedding.md", "cmake");
  ASSERT_EQ(lists.size(), 1U);
  const filesystem::path client = work_ / "client";
  filesystem::create_directory(client);
  filesystem::copy_file(work_ / "examples/upload_scheduler.cc", client / "upload_scheduler.cc");
  write("client/CMakeLists.txt", lists[0]);
  const std::string in = "cd " + client.string() + " && ";
  ASSERT_TRUE(succeeds(in + "cmake -G Ninja -B out -DCMAKE_PREFIX_PATH=" + prefix_.string() +
                       " -DCMAKE_CXX_COMPILER=" + compiler_));
  ASSERT_TRUE(succeeds(in + "cmake --build out && out/my_client"));
}

// The commands of the two pages, as they stand there.
TEST_P(InstalledPackage, BuildsTheExamplesWithPkgConfigAlone) {
  for (const char* library : {"base", "timerwheel", "writeback", "inode", "fs"}) {
    EXPECT_TRUE(succeeds(pkg_config_ + " --exists tidewheel-" + library));
  }
  const std::string in = "cd " + (work_ / "examples").string() + " && ";
  std::size_t built = 0;
  for (const char* page : {"docs/embedding.md", "docs/experiments.md"}) {
    for (std::string command : blocks_of(page, "sh")) {
      if (!command.starts_with("g++ ")) continue;
      command.pop_back();  // the line's end
      const std::string program = command.substr(command.rfind(' ') + 1);
      ASSERT_TRUE(succeeds(in + "export PKG_CONFIG_PATH=" + (prefix_ / "lib/pkgconfig").string() + " && " +
                           command + " && ./" + program + " >out.txt"));
      ++built;
    }
  }
  EXPECT_EQ(built, 2U);
}

// A program that thinks the library has other layouts than it has is not built.
TEST_P(InstalledPackage, RefusesToBeMixedWithOtherOptions) {
  write("program.cc", "#include <tidewheel/base/sync.h>\nint main() { return 0; }\n");
  ASSERT_TRUE(succeeds(compile("base", "program.cc")));
  const bool sim = cached(build_, "TIDEWHEEL_SIM") == "ON";
  const Outcome other = run(compile("base", "program.cc", sim ? "-DTW_SIM=0" : "-DTW_SIM=1"));
  EXPECT_NE(other.status, 0);
  EXPECT_NE(other.text.find("this tidewheel was built"), std::string::npos) << other.text;
  // Headers of one build, library of another.
  std::ifstream in(prefix_ / "include/tidewheel/base/build_options.h");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  in.close();
  const std::string is = sim ? "#define TW_SIM 1\n" : "#define TW_SIM 0\n";
  const auto at = text.find(is);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, is.size(), sim ? "#define TW_SIM 0\n" : "#define TW_SIM 1\n");
  write("prefix/include/tidewheel/base/build_options.h", text);
  const Outcome mixed = run(compile("base", "program.cc"));
  EXPECT_NE(mixed.status, 0);
  EXPECT_NE(mixed.text.find("tidewheel_built"), std::string::npos) << mixed.text;
}

// `.`: the build that this test belongs to. A release that nobody has brought up to date would not fit the
// headers: tests/run names its program once it has been built.
std::vector<const char*> builds() {
  std::vector<const char*> all = {"."};
  const char* program = std::getenv("TIDEWHEEL_PROGRAM");
  if (program != nullptr && std::string(program).ends_with("/build/release/bin/tidewheel")) {
    all.push_back("release");
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Builds, InstalledPackage, testing::ValuesIn(builds()), [](const auto& each) {
  return std::string(each.param) == "." ? "This" : "Release";
});

}  // namespace
