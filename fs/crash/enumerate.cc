#include "fs/crash/enumerate.h"

#include <algorithm>
#include <utility>

namespace tidewheel {

namespace {

constexpr std::uint64_t kPrefixTears = 16;
constexpr std::uint64_t kDrawnTears = 32;

std::uint32_t write_count(const Cut& cut) { return static_cast<std::uint32_t>(cut.candidates.size()); }

std::uint64_t prefix_tears(const Cut& cut) {
  return cut.candidates.empty() ? 0 : std::min(cut.candidates.back().sectors() - 1, kPrefixTears);
}

StateSpec all_lost(const Cut& cut) {
  StateSpec spec;
  for (std::uint32_t i = 0; i < write_count(cut); ++i) spec.lose(i);
  return spec;
}

// Either a write goes, or what its preflush covers comes.
void make_possible(const Cut& cut, StateSpec& spec, Rng& rng) {
  for (std::uint32_t i = 0; i < write_count(cut); ++i) {
    const std::vector<std::uint32_t>& needs = cut.candidates[i].needs;
    if (needs.empty() || spec.is_lost(i)) continue;
    const bool whole = std::all_of(needs.begin(), needs.end(), [&](std::uint32_t need) {
      return !spec.is_lost(need) && spec.tear_of(need) == nullptr;
    });
    if (whole) continue;
    if (rng.chance(2)) {
      spec.lose(i);
      std::erase_if(spec.torn, [i](const Tear& tear) { return tear.candidate == i; });
      continue;
    }
    for (const std::uint32_t need : needs) {
      spec.keep(need);
      std::erase_if(spec.torn, [need](const Tear& tear) { return tear.candidate == need; });
    }
  }
}

Tear draw_tear(const Cut& cut, std::uint32_t candidate, Rng& rng) {
  const std::uint64_t sectors = cut.candidates[candidate].sectors();
  Tear tear;
  tear.candidate = candidate;
  if (rng.chance(2)) {
    tear.value = (1 + rng.below(sectors - 1)) * kSectorBytes;  // sectors >= 8
  } else if (sectors <= 64 && rng.chance(2)) {
    tear.form = Tear::Form::kMask;  // one sector, or all but one
    tear.value = 1ULL << rng.below(sectors);
    if (rng.chance(2)) tear.value ^= sectors == 64 ? ~0ULL : (1ULL << sectors) - 1;
  } else {
    tear.form = Tear::Form::kDrawn;
    tear.value = rng.below(1'000'000);
  }
  return tear;
}

StateSpec draw_subset(const Cut& cut, Rng& rng) {
  StateSpec spec;
  // One in two, one in n, and all but that many: different kinds of subsets when n is large.
  const std::uint64_t kind = rng.below(4);
  const std::uint32_t n = write_count(cut);
  for (std::uint32_t i = 0; i < n; ++i) {
    const bool rare = rng.below(n) == 0;
    if (kind < 2 ? rng.chance(2) : (kind == 2) == rare) spec.lose(i);
  }
  return spec;
}

StateSpec draw_torn(const Cut& cut, Rng& rng) {
  StateSpec spec = draw_subset(cut, rng);
  std::vector<std::uint32_t> torn;
  for (std::uint64_t tears = 1 + rng.below(3); tears != 0; --tears) {
    // The newest is the likeliest: a log's head.
    const std::uint32_t n = write_count(cut);
    torn.push_back(rng.chance(2) ? n - 1 : static_cast<std::uint32_t>(rng.below(n)));
  }
  std::sort(torn.begin(), torn.end());
  torn.erase(std::unique(torn.begin(), torn.end()), torn.end());
  for (const std::uint32_t candidate : torn) {
    spec.keep(candidate);
    spec.torn.push_back(draw_tear(cut, candidate, rng));
  }
  return spec;
}

}  // namespace

std::uint64_t count_states(const Cut& cut) {
  const std::uint32_t n = write_count(cut);
  if (n == 0) return 1;
  const std::uint64_t subsets = n <= kExhaustiveWrites ? 1ULL << n : kSampledSubsets;
  return subsets + 2 * prefix_tears(cut) + kDrawnTears;
}

StateSpec draw_state(const Cut& cut, Rng& rng) {
  if (cut.candidates.empty()) return {};
  StateSpec spec = rng.chance(2) ? draw_torn(cut, rng) : draw_subset(cut, rng);
  make_possible(cut, spec, rng);
  return spec;
}

std::vector<StateSpec> enumerate(const Cut& cut, std::uint64_t seed, std::uint64_t most) {
  std::vector<StateSpec> specs;
  if (most == 0) return specs;
  Rng rng(seed);
  if (most == 1) return {draw_state(cut, rng)};
  specs.emplace_back();  // all of it is there
  const std::uint32_t n = write_count(cut);
  if (n == 0) return specs;
  const auto add = [&](StateSpec spec) {
    if (is_possible(cut, spec)) specs.push_back(std::move(spec));
  };
  if (count_states(cut) > most) {
    add(all_lost(cut));
    while (specs.size() < most) specs.push_back(draw_state(cut, rng));
    return specs;
  }
  if (n <= kExhaustiveWrites) {
    for (std::uint64_t lost = 1; lost < 1ULL << n; ++lost) {
      StateSpec spec;
      spec.lost.push_back(lost);
      add(std::move(spec));
    }
  } else {
    add(all_lost(cut));
    for (std::uint32_t i = 0; i < n; ++i) {
      StateSpec alone, rest = all_lost(cut), prefix;
      alone.lose(i);
      rest.keep(i);
      for (std::uint32_t k = i + 1; k < n; ++k) prefix.lose(k);
      add(std::move(alone));
      add(std::move(rest));
      add(std::move(prefix));
    }
    while (specs.size() < kSampledSubsets) {
      StateSpec spec = draw_subset(cut, rng);
      make_possible(cut, spec, rng);
      specs.push_back(std::move(spec));
    }
  }
  for (std::uint64_t sectors = 1; sectors <= prefix_tears(cut); ++sectors) {
    StateSpec with_others, alone = all_lost(cut);
    alone.keep(n - 1);
    for (StateSpec* spec : {&with_others, &alone}) {
      spec->torn.push_back({n - 1, Tear::Form::kPrefix, sectors * kSectorBytes});
      add(std::move(*spec));
    }
  }
  for (std::uint64_t i = 0; i < kDrawnTears; ++i) {
    StateSpec spec = draw_torn(cut, rng);
    make_possible(cut, spec, rng);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace tidewheel
