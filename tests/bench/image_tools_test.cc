// `tidewheel mkfs` and `tidewheel dump` from outside: files, messages, exit status, JSON.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tidewheel::bench {
namespace {

namespace stdfs = std::filesystem;

class ImageToolsTest : public testing::Test {
 protected:
  ImageToolsTest() {
    std::string pattern = (stdfs::temp_directory_path() / "tidewheel-image-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~ImageToolsTest() override { stdfs::remove_all(root_); }

  // In root_, as a shell would.
  int run(const std::string& words) {
    const char* program = std::getenv("TIDEWHEEL_PROGRAM");
    const std::string command = "cd '" + root_ + "' && '" +
                                (program != nullptr ? program : TIDEWHEEL_PROGRAM) + "' " + words +
                                " >stdout 2>stderr";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream in(root_ + "/" + name);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ + "/" + name) << text;
  }
  bool exists(const std::string& name) const { return stdfs::exists(root_ + "/" + name); }
  std::uint64_t size_of(const std::string& name) const { return stdfs::file_size(root_ + "/" + name); }
  void expect_error(const std::string& begin) const {
    const std::string text = text_of("stderr");
    EXPECT_EQ(text.rfind("tidewheel: " + begin, 0), 0U) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_EQ(text_of("stdout"), "");
  }
  std::string root_;
};

TEST_F(ImageToolsTest, MakesAFileSystemAndPrintsIt) {
  ASSERT_EQ(run("mkfs a.img --size 64M --label 'a label' --json mkfs.json"), 0) << text_of("stderr");
  EXPECT_EQ(size_of("a.img"), 64ULL << 20);
  const auto json = nlohmann::json::parse(text_of("mkfs.json"));
  EXPECT_EQ(json.at("schema"), "tidewheel.mkfs/1");
  for (const char* key : {"version", "machine", "command", "seed", "started", "size", "ag_count", "ag_blocks",
                          "log_bytes", "uuid", "image_bytes_used", "seconds"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.at("size"), 64ULL << 20);
  EXPECT_LT(json.at("image_bytes_used"), 1ULL << 20) << "sparse";
  const std::string uuid = json.at("uuid");
  EXPECT_NE(text_of("stdout").find(uuid), std::string::npos);
  ASSERT_EQ(run("dump a.img super"), 0);
  EXPECT_NE(text_of("stdout").find(uuid), std::string::npos);
  EXPECT_NE(text_of("stdout").find("\"a label\""), std::string::npos);
  for (const char* what : {"ag 0", "ag 3", "inode 128", "dir 128", "log"}) {
    EXPECT_EQ(run(std::string("dump a.img ") + what), 0) << what << text_of("stderr");
    EXPECT_EQ(text_of("stdout").find("DAMAGED"), std::string::npos) << text_of("stdout");
  }
}

TEST_F(ImageToolsTest, OverwritesNothingUnlessForced) {
  const std::string poem(10'000, 'p');
  write("poem.txt", poem);
  EXPECT_EQ(run("mkfs poem.txt --size 64M"), 1);
  expect_error("poem.txt: it holds something and would be overwritten: --force");
  EXPECT_EQ(text_of("poem.txt"), poem);
  ASSERT_EQ(run("mkfs a.img --size 64M"), 0);
  EXPECT_EQ(run("mkfs a.img"), 1);
  expect_error("a.img: it holds a tidefs");
  // A geometry that cannot be leaves it alone even then.
  EXPECT_EQ(run("mkfs poem.txt --size 64M --log-size 8k --force"), 1);
  expect_error("--log-size: ");
  EXPECT_EQ(text_of("poem.txt"), poem);
  EXPECT_EQ(run("mkfs poem.txt --size 8M --force"), 0) << text_of("stderr");
  EXPECT_EQ(size_of("poem.txt"), 8ULL << 20);
  EXPECT_EQ(run("dump poem.txt super"), 0);
}

TEST_F(ImageToolsTest, LeavesNoFileBehindThatItCouldNotFill) {
  EXPECT_EQ(run("mkfs new.img --size 1M"), 1);
  expect_error("--size: too small: a tidefs takes at least ");
  EXPECT_FALSE(exists("new.img"));
  EXPECT_EQ(run("mkfs new.img"), 2);
  expect_error("new.img: it does not exist: --size");
  EXPECT_FALSE(exists("new.img"));
  EXPECT_EQ(run("mkfs no/such/new.img --size 64M"), 1);
  expect_error("no/such/new.img: ");
  EXPECT_EQ(run("mkfs . --size 64M"), 1);
  expect_error(".: it is neither a regular file nor a disk");
}

TEST_F(ImageToolsTest, TakesAnImageThatIsThereAndEmpty) {
  write("empty.img", "");
  EXPECT_EQ(run("mkfs empty.img"), 2);
  expect_error("empty.img: it is empty: --size");
  EXPECT_EQ(run("mkfs empty.img --size 16M"), 0) << text_of("stderr");
  std::ofstream(root_ + "/zeros.img") << std::string(8 << 20, '\0');
  EXPECT_EQ(run("mkfs zeros.img"), 0) << text_of("stderr");
  EXPECT_EQ(size_of("zeros.img"), 8ULL << 20);
}

TEST_F(ImageToolsTest, PreallocatesTheLogWhenAsked) {
  ASSERT_EQ(run("mkfs a.img --size 1G --prealloc --json j"), 0) << text_of("stderr");
  const auto json = nlohmann::json::parse(text_of("j"));
  EXPECT_GE(json.at("image_bytes_used"), json.at("log_bytes"));
}

TEST_F(ImageToolsTest, SaysWhatAValueMayBe) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {"mkfs", "mkfs: which image?"},
      {"mkfs a.img --size 4kx", "--size: '4kx' is not accepted"},
      {"mkfs a.img --size -1", "--size: '-1' is not accepted"},
      {"mkfs a.img --ag-count 0 --size 64M", "--ag-count: '0' is not accepted"},
      {"mkfs a.img b.img", "'b.img': mkfs takes no further word"},
      {"mkfs a.img --sice 4M", "--sice: mkfs has no such option"},
      {"mkfs a.img --label 0123456789012345678901234567890123456789", "--label: "},
      {"dump", "dump: which image?"},
      {"dump a.img", "dump: what of it?"},
      {"dump a.img ag", "dump: ag takes a number"},
      {"dump a.img ag x", "dump: ag takes a number, as 'ag 0', not 'x'"},
      {"dump a.img log 5", "dump: '5': log takes no number"},
      {"dump a.img everything", "dump: 'everything' is not accepted"},
  };
  for (const auto& [words, line] : wrong) {
    EXPECT_EQ(run(words), 2) << words;
    expect_error(line);
  }
  EXPECT_EQ(run("dump missing.img super"), 1);
  expect_error("missing.img: it does not exist");
  write("poem.txt", std::string(10'000, 'p'));
  EXPECT_EQ(run("dump poem.txt super"), 1);
  expect_error("poem.txt: it is no tidefs");
}

}  // namespace
}  // namespace tidewheel::bench
