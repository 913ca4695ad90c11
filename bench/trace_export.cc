#include "bench/trace_export.h"

#include <cstdio>
#include <map>

#include "fs/block/block_device.h"
#include "writeback/batch.h"
#include "writeback/dirty_object.h"

namespace tidewheel::bench {

namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

unsigned long long number(std::uint64_t value) { return value; }

TraceThread thread_of(const TraceSnapshot& trace, std::uint32_t thread) {
  for (const TraceThread& one : trace.threads) {
    if (one.thread == thread) return one;
  }
  return {.thread = thread, .name = "thread", .system_id = thread};
}

// The field's words for the kinds of work.
const char* reason_of(std::uint64_t kind) {
  switch (static_cast<WorkKind>(kind)) {
    case WorkKind::kSync: return "sync";
    case WorkKind::kFsync: return "fsync";
    case WorkKind::kPeriodic: return "periodic";
    case WorkKind::kBackground: return "background";
    case WorkKind::kReclaim: return "vmscan";
  }
  return "unknown";
}

std::string state_of(std::uint64_t classes) {
  std::string text;
  const auto add = [&](std::uint64_t bit, const char* name) {
    if ((classes & bit) != 0) text += (text.empty() ? "" : "|") + std::string(name);
  };
  add(kDirtyMetadata, "I_DIRTY_SYNC");
  add(kDirtyData, "I_DIRTY_PAGES");
  add(kDirtyTimestamps, "I_DIRTY_TIME");
  return text.empty() ? "0" : text;
}

std::string work_fields(std::uint64_t context, std::uint64_t kind) {
  const auto is = [&](WorkKind which) { return kind == static_cast<std::uint64_t>(which) ? 1 : 0; };
  return format("bdi tw-%llu: sync_mode=%d kupdate=%d background=%d reason=%s", number(context),
                is(WorkKind::kSync) | is(WorkKind::kFsync), is(WorkKind::kPeriodic),
                is(WorkKind::kBackground), reason_of(kind));
}

long long age_ms(const TraceEvent& event, std::uint64_t since_ns) {
  return (event.at_ns - static_cast<std::int64_t>(since_ns)) / 1'000'000;
}

// As the kernel's block layer writes the kind of a request: flush before, operation, FUA, and whether it is
// waited for (here: the log's) or metadata.
std::string rwbs_of(const IoTraceFlags& flags) {
  std::string text;
  if (flags.preflush) text += 'F';
  switch (flags.op) {
    case IoOp::kRead: text += 'R'; break;
    case IoOp::kWrite: text += 'W'; break;
    case IoOp::kFlush: text += 'F'; break;
  }
  if (flags.fua) text += 'F';
  if (flags.cause == IoCause::kLog) text += 'S';
  if (flags.cause == IoCause::kMetadata) text += 'M';
  return text;
}

// A device number of the kernel's shape: no major, and as many bits of the address as a minor has.
std::string device_of(std::uint64_t address) { return format("0,%llu", number(address >> 6 & 0xFFFFF)); }

std::string fields_of(const TraceEvent& event, const TraceThread& thread) {
  const std::uint64_t a = event.arguments[0], b = event.arguments[1], c = event.arguments[2],
                      d = event.arguments[3];
  switch (event.point) {
    case TracePoint::writeback_dirty_inode:
      return format("bdi tw-%llu: ino=%llu state=%s flags=%s", number(d), number(a), state_of(b).c_str(),
                    state_of(b).c_str());
    case TracePoint::writeback_queue:
      return work_fields(a, b) + format(" dirty_bytes=%llu", number(c));
    case TracePoint::writeback_start:
      return work_fields(a, b) + format(" nr_inodes=%llu batch=%llu", number(c), number(d));
    case TracePoint::writeback_written:
      return format("bdi tw-%llu: nr_inodes=%llu bytes=%llu batch=%llu", number(a), number(b), number(c),
                    number(d));
    case TracePoint::writeback_wait:
      return format("bdi tw-%llu: dirtied_before=%llu batch=%llu", number(a), number(b / 1'000'000),
                    number(c));
    case TracePoint::writeback_queue_io: {
      // Work without a cut-off takes whatever is dirty now.
      const bool any = b >= static_cast<std::uint64_t>(event.at_ns);
      const std::uint64_t older = any ? static_cast<std::uint64_t>(event.at_ns) : b;
      return format("bdi tw-%llu: older=%llu age=%lld enqueue=%llu reason=%s", number(a),
                    number(older / 1'000'000), age_ms(event, older), number(c), reason_of(d));
    }
    case TracePoint::writeback_single_inode_start:
      return format("bdi tw-%llu: ino=%llu state=%s dirtied_when=%llu age=%lld", number(d), number(a),
                    state_of(b).c_str(), number(c / 1'000'000), age_ms(event, c));
    case TracePoint::writeback_single_inode:
      return format("bdi tw-%llu: ino=%llu outcome=%llu bytes=%llu", number(d), number(a), number(b),
                    number(c));
    case TracePoint::balance_dirty_pages:
      return format("bdi tw-%llu: limit_bytes=%llu dirty_bytes=%llu paused=%llu", number(a), number(d),
                    number(b), number(c / 1'000'000));
    case TracePoint::global_dirty_state:
      return format("dirty_bytes=%llu writeback_bytes=%llu bg_thresh_bytes=%llu thresh_bytes=%llu", number(a),
                    number(b), number(c), number(d));
    case TracePoint::writeback_sb_inodes_requeue:
      return format("bdi tw-%llu: ino=%llu outcome=%llu dirtied_when=%llu age=%lld", number(d), number(a),
                    number(b), number(c / 1'000'000), age_ms(event, c));
    case TracePoint::mm_vmscan_direct_reclaim_begin:
      return format("order=0 to_reclaim_bytes=%llu listed_bytes=%llu", number(a), number(b));
    case TracePoint::mm_vmscan_direct_reclaim_end: return format("nr_reclaimed=%llu", number(a));
    case TracePoint::mm_shrink_slab_start:
      return format("%llx: bytes to shrink %llu charged bytes %llu", number(a), number(b), number(c));
    case TracePoint::mm_shrink_slab_end:
      return format("%llx: bytes to shrink %llu last shrinker return val %llu", number(a), number(b),
                    number(c));
    case TracePoint::block_rq_issue:
      return device_of(a) + " " + rwbs_of(IoTraceFlags::unpacked(d)) +
             format(" %llu () %llu + %llu [", number(c), number(b / kSectorBytes), number(c / kSectorBytes)) +
             thread.name + "]";
    case TracePoint::block_rq_complete: {
      const IoTraceFlags flags = IoTraceFlags::unpacked(d);
      return device_of(a) + " " + rwbs_of(flags) +
             format(" () %llu + %llu [%d]", number(b / kSectorBytes), number(c / kSectorBytes),
                    -errno_of(flags.error));
    }
    default: break;
  }
  std::string text;
  const TracePointNames& names = names_of(event.point);
  for (std::size_t i = 0; i < kTraceArguments; ++i) {
    if (std::string_view(names.arguments[i]) == "unused") continue;
    text += (text.empty() ? "" : " ") + format("%s=%llu", names.arguments[i], number(event.arguments[i]));
  }
  return text;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else {
      out += byte < 0x20 || byte >= 0x7F ? '?' : c;
    }
  }
  return out + '"';
}

class Json {
 public:
  explicit Json(const TraceSnapshot& trace) : trace_(trace) {}
  std::string make();

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // context, batch

  void emit(const char* phase, const std::string& name, const TraceEvent& event, std::int64_t at_ns,
            const std::string& more) {
    out_ += (first_ ? "\n" : ",\n") + std::string("{\"ph\":\"") + phase + "\",\"name\":" + json_text(name) +
            format(",\"pid\":1,\"tid\":%u,\"ts\":%.3f,", event.thread, static_cast<double>(at_ns) * 1e-3) +
            more + "}";
    first_ = false;
  }
  void open_batch(const TraceEvent& event) {
    const Key key{event.arguments[0], event.arguments[3]};
    close_batch(key, event.at_ns, "\"lost_end\":true");  // one of that number was open: its end was lost
    open_[key] = event;
    emit("b", reason_of(event.arguments[1]), event, event.at_ns,
         batch_id(key) + format(",\"args\":{\"inodes\":%llu}", number(event.arguments[2])));
  }
  void close_batch(const Key key, std::int64_t at_ns, const std::string& args) {
    const auto found = open_.find(key);
    if (found == open_.end()) return;
    const TraceEvent began = found->second;
    open_.erase(found);
    emit("e", reason_of(began.arguments[1]), began, at_ns, batch_id(key) + ",\"args\":{" + args + "}");
  }
  static std::string batch_id(const Key& key) {
    return format("\"cat\":\"writeback\",\"id\":\"tw-%llu/%llu\"", number(key.first), number(key.second));
  }

  const TraceSnapshot& trace_;
  std::map<Key, TraceEvent> open_;
  std::string out_;
  bool first_ = true;
};

std::string Json::make() {
  out_ = format("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":%llu},\"traceEvents\":[",
                number(trace_.dropped));
  std::int64_t last_ns = 0;
  for (const TraceThread& one : trace_.threads) {
    TraceEvent named;
    named.thread = one.thread;
    const std::string name = one.name + "-" + std::to_string(one.system_id);
    emit("M", "thread_name", named, 0, "\"args\":{\"name\":" + json_text(name) + "}");
  }
  for (const TraceEvent& event : trace_.events) {
    last_ns = event.at_ns;
    const std::uint64_t* a = event.arguments;
    switch (event.point) {
      case TracePoint::writeback_start: open_batch(event); break;
      case TracePoint::writeback_written:
        close_batch({a[0], a[3]}, event.at_ns, format("\"bytes\":%llu", number(a[2])));
        break;
      case TracePoint::balance_dirty_pages:
        emit("X", "throttled", event, event.at_ns - static_cast<std::int64_t>(a[2]),
             format("\"cat\":\"throttle\",\"dur\":%.3f,\"args\":{\"dirty_bytes\":%llu}",
                    static_cast<double>(a[2]) * 1e-3, number(a[1])));
        break;
      case TracePoint::global_dirty_state:
        emit("C", "bytes", event, event.at_ns,
             format("\"args\":{\"dirty\":%llu,\"writeback\":%llu}", number(a[0]), number(a[1])));
        break;
      default:
        emit("i", names_of(event.point).name, event, event.at_ns,
             "\"s\":\"t\",\"args\":{\"fields\":" +
                 json_text(fields_of(event, thread_of(trace_, event.thread))) + "}");
    }
  }
  while (!open_.empty()) close_batch(open_.begin()->first, last_ns, "\"unfinished\":true");
  return out_ + "\n]}\n";
}

}  // namespace

std::string trace_lines(const TraceSnapshot& trace) {
  const std::uint64_t kept = trace.events.size();
  std::string out = "# tracer: nop\n#\n" +
                    format("# entries-in-buffer/entries-written: %llu/%llu   dropped: %llu (the oldest of "
                           "each thread)\n#\n",
                           number(kept), number(kept + trace.dropped), number(trace.dropped)) +
                    "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n";
  for (const TraceEvent& event : trace.events) {
    const TraceThread thread = thread_of(trace, event.thread);
    const std::int64_t us = event.at_ns / 1000;
    out += format("%16s-%-7llu [%03u] ..... %5lld.%06lld: ", thread.name.c_str(), number(thread.system_id),
                  static_cast<unsigned>(event.cpu), static_cast<long long>(us / 1'000'000),
                  static_cast<long long>(us % 1'000'000)) +
           names_of(event.point).name + ": " + fields_of(event, thread) + "\n";
  }
  return out;
}

std::string trace_json(const TraceSnapshot& trace) { return Json(trace).make(); }

}  // namespace tidewheel::bench
