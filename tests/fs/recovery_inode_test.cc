// Inode clusters: buffers in which every inode carries an LSN of its own.
#include <gtest/gtest.h>

#include "fs/format/inode_core.h"
#include "tests/fs/recovery_rig.h"

namespace tidewheel {
namespace {

using Cluster = std::array<std::byte, std::size_t{disk::kInodeClusterBlocks} * kFsBlockBytes>;

// A cluster in the place of two objects.
class ClusterLog {
 public:
  static constexpr DeviceAddress kAddress{8};

  disk::InodeNumber number(std::uint32_t slot) const {
    return {(log.layout.geometry().fs_block(kAddress).value << disk::kInodesPerBlockLog) + slot};
  }
  static disk::DiskInode& slot(Cluster& cluster, std::uint32_t slot) {
    return disk::view<disk::DiskInode>(std::span<std::byte>(cluster), std::size_t{slot} * disk::kInodeBytes);
  }
  // Free inodes of this generation, all with this LSN.
  Cluster cluster(std::uint32_t generation, Lsn lsn) const {
    Cluster cluster{};
    for (std::uint32_t i = 0; i < disk::kInodesPerCluster; ++i) {
      disk::start_inode(slot(cluster, i), log.layout.uuid, number(i), generation);
      disk::stamp_inode(slot(cluster, i), lsn);
    }
    return cluster;
  }
  void put(const Cluster& cluster) {
    if (!log.device->write(kAddress.bytes(), cluster)) std::abort();
  }
  Cluster home() {
    alignas(4096) Cluster cluster;
    if (!log.device->read(kAddress.bytes(), cluster)) std::abort();
    return cluster;
  }
  // A checkpoint with these slots of it, as they are there.
  Lsn change(Cluster& cluster, std::initializer_list<std::uint32_t> slots, Lsn tail, std::uint16_t flags = 0,
             std::uint32_t blocks = disk::kInodeClusterBlocks) {
    struct {
      disk::BufferItemFormat format;
      disk::Le32 dirty[2];
    } item{};
    std::uint64_t mask = 0;
    for (const std::uint32_t slot : slots) mask |= 3ULL << 2 * slot;  // two chunks each
    std::uint16_t regions = 1;
    for (std::uint32_t i = 0; i < 64; ++i) {
      if ((mask >> i & 1) != 0 && (i == 0 || (mask >> (i - 1) & 1) == 0)) ++regions;
    }
    item.format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kBuffer);
    item.format.item.regions = regions;
    item.format.flags = static_cast<std::uint16_t>(disk::kBufferInode | flags);
    item.format.dirty_words = 2;
    item.format.length_blocks = blocks;
    item.format.block_type = static_cast<std::uint16_t>(disk::BlockType::kInodeCluster);
    item.format.address = kAddress.value;
    item.dirty[0] = static_cast<std::uint32_t>(mask);
    item.dirty[1] = static_cast<std::uint32_t>(mask >> 32);
    log.start(1).op(0, std::as_bytes(std::span(&item, 1)));
    for (std::uint32_t i = 0; i < 64;) {
      std::uint32_t end = i;
      while (end < 64 && (mask >> end & 1) != 0) ++end;
      if (end != i) {
        log.op(0, std::span<const std::byte>(cluster).subspan(std::size_t{i} * disk::kDirtyChunkBytes,
                                                              std::size_t{end - i} * disk::kDirtyChunkBytes));
      }
      i = end + 1;
    }
    log.commit();
    return log.write(tail == kNeverLsn ? log.head : tail);
  }
  Result<Recovery> recover() {
    MemoryBudget budget(16 << 20, 0);
    BufferCache cache(budget, {.expected_buffers = 64});
    BufferTarget target(cache, *log.device, log.layout.geometry());
    LogReader reader(*log.device, log.layout.log());
    return tidewheel::recover(reader, *log.device, cache, target, mock_replay_table());
  }
  void expect(std::uint32_t at, std::uint32_t generation, Lsn lsn) {
    Cluster cluster = home();
    const disk::DiskInode& inode = slot(cluster, at);
    EXPECT_EQ(inode.core.body.generation, generation) << "slot " << at;
    EXPECT_EQ(Lsn{inode.core.head.lsn}, lsn) << "slot " << at;
    EXPECT_TRUE(disk::verify_inode(inode, number(at), log.layout.geometry(), disk::kNewestLsn).good()) << at;
  }

  LogBuilder log;
};

TEST(InodeClusterReplay, ComparesTheLsnOfEachInode) {
  ClusterLog rig;
  Cluster logged = rig.cluster(77, kNoLsn);
  const Lsn lsn = rig.change(logged, {0, 1, 5}, kNeverLsn);
  const Lsn later = rig.log.change(0, 1, lsn);
  Cluster home = rig.cluster(1, kNoLsn);
  ClusterLog::slot(home, 1).core.body.generation = 99;
  disk::stamp_inode(ClusterLog::slot(home, 1), later);  // written home since
  rig.put(home);
  ASSERT_TRUE(rig.recover());
  rig.expect(0, 77, lsn);
  rig.expect(1, 99, later);
  rig.expect(2, 1, kNoLsn);  // not logged
  rig.expect(5, 77, lsn);
}

// A write of the cluster tore one inode: what its LSN says counts for nothing, those of the others do.
TEST(InodeClusterReplay, ReplaysWhatIsTornAndKeepsWhatIsNewer) {
  ClusterLog rig;
  Cluster logged = rig.cluster(77, kNoLsn);
  const Lsn lsn = rig.change(logged, {0, 1, 2}, kNeverLsn);
  const Lsn later = rig.log.change(0, 1, lsn);
  Cluster home = rig.cluster(99, later);
  ClusterLog::slot(home, 2).core.body.user = 4711;  // without its CRC
  rig.put(home);
  const auto recovery = rig.recover();
  ASSERT_TRUE(recovery);
  EXPECT_EQ(recovery->items.torn_homes, 1U);
  rig.expect(0, 99, later);
  rig.expect(1, 99, later);
  rig.expect(2, 77, lsn);
}

TEST(InodeClusterReplay, MakesANewClusterOverWhateverIsThere) {
  ClusterLog rig;
  Cluster logged = rig.cluster(7, kNoLsn);
  const Lsn lsn = rig.change(logged, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                      16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
                             kNeverLsn, disk::kBufferNew);
  Cluster data;
  data.fill(std::byte{0xDA});
  rig.put(data);
  ASSERT_TRUE(rig.recover());
  for (std::uint32_t i = 0; i < disk::kInodesPerCluster; ++i) rig.expect(i, 7, lsn);
}

TEST(InodeClusterReplay, ComesToTheSameBytesASecondTime) {
  ClusterLog rig;
  Cluster logged = rig.cluster(77, kNoLsn);
  const Lsn first = rig.change(logged, {3, 4}, kNeverLsn);
  ClusterLog::slot(logged, 4).core.body.generation = 78;
  const Lsn second = rig.change(logged, {4}, first);
  rig.put(rig.cluster(1, kNoLsn));
  const std::vector<std::byte> crashed = rig.log.image();
  ASSERT_TRUE(rig.recover());
  rig.expect(3, 77, first);
  rig.expect(4, 78, second);
  const Cluster once = rig.home();
  // The homes were written, and the record that says so was not.
  ASSERT_TRUE(rig.log.device->write(0, crashed));
  rig.put(once);
  ASSERT_TRUE(rig.recover());
  EXPECT_EQ(rig.home(), once);
}

TEST(InodeClusterReplay, RefusesAClusterOfAnotherLength) {
  ClusterLog rig;
  Cluster logged = rig.cluster(77, kNoLsn);
  rig.change(logged, {0}, kNeverLsn, 0, 1);
  rig.put(rig.cluster(1, kNoLsn));
  const auto recovery = rig.recover();
  ASSERT_FALSE(recovery);
  EXPECT_EQ(recovery.error().code, Reason::kCorrupt);
}

}  // namespace
}  // namespace tidewheel
