#include "bench/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

namespace tidewheel::bench {

namespace {

std::string without_dashes(std::string_view names) {
  std::string first(names.substr(0, names.find(',')));
  first.erase(0, first.find_first_not_of('-'));
  return first;
}

struct Bound {
  const OptionSpec* spec;
  CLI::Option* option;
  std::vector<std::string> values;
};

ParseResult usage(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return ParseResult{.kind = ParseResult::Kind::kUsage, .arguments = {}, .text = std::move(text)};
}

// The option a word of the command line names: "-n", "-n5", "--seed=3".
const OptionSpec* spec_of(const SubcommandSpec& subcommand, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return nullptr;
  std::string_view name = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
  for (const OptionSpec& spec : subcommand.options) {
    std::string_view names = spec.names;
    while (!names.empty()) {
      const std::string_view one = names.substr(0, names.find(','));
      if (one == name) return &spec;
      names.remove_prefix(std::min(names.size(), one.size() + 1));
    }
  }
  return nullptr;
}

// CLI11 reports what is wrong in its own words; these are ours.
ParseResult describe_failure(const SubcommandSpec& subcommand, const std::vector<std::string>& words) {
  const auto positionals = static_cast<std::size_t>(
      std::count_if(subcommand.options.begin(), subcommand.options.end(),
                    [](const OptionSpec& spec) { return spec.kind == ValueKind::kPositional; }));
  std::size_t plain_words = 0;
  const std::string see = "'tidewheel " + std::string(subcommand.name) + " --help' lists them";
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const OptionSpec* spec = spec_of(subcommand, word);
    if (spec == nullptr) {
      if (word.size() > 1 && word[0] == '-') {
        return usage(word + ": " + subcommand.name + " has no such option; " + see);
      }
      if (++plain_words <= positionals) continue;
      return usage("'" + word + "': " + subcommand.name +
                   (positionals == 0 ? " takes options only; " : " takes no further word; ") + see);
    }
    const bool is_long = word.size() > 2 && word[1] == '-';
    const bool has_attached = is_long ? word.find('=') != std::string::npos : word.size() > 2;
    if (spec->kind == ValueKind::kFlag) {
      if (is_long && has_attached) return usage(word.substr(0, word.find('=')) + ": takes no value");
      // "-kv": flags in one word; look at each.
      for (std::size_t k = 2; !is_long && k < word.size(); ++k) {
        if (spec_of(subcommand, std::string("-") + word[k]) == nullptr) {
          return usage(word + ": " + subcommand.name + " has no option -" + word[k] + "; " + see);
        }
      }
      continue;
    }
    if (!has_attached) {
      if (i + 1 >= words.size()) return usage(word + ": needs a value (" + std::string(spec->help) + ")");
      ++i;
    }
  }
  return usage(std::string(subcommand.name) + ": the options could not be read; " + see);
}

}  // namespace

ParseResult parse_arguments(std::span<const SubcommandSpec> subcommands, std::string_view version,
                            const std::vector<std::string>& words) {
  CLI::App app("a writeback laboratory: dirty-list designs under the fs_mark workload", "tidewheel");
  app.set_version_flag("--version", "tidewheel " + std::string(version));
  app.set_help_flag("--help,-h", "this text");
  app.require_subcommand(0, 1);

  std::vector<std::unique_ptr<Bound>> bound;
  std::vector<std::pair<const SubcommandSpec*, CLI::App*>> apps;
  for (const SubcommandSpec& subcommand : subcommands) {
    CLI::App* sub = app.add_subcommand(subcommand.name, subcommand.summary);
    sub->set_help_flag("--help,-h", "this text");
    sub->footer(subcommand.footer);
    for (const OptionSpec& spec : subcommand.options) {
      auto one = std::make_unique<Bound>(Bound{.spec = &spec, .option = nullptr, .values = {}});
      if (spec.kind == ValueKind::kFlag) {
        one->option = sub->add_flag(spec.names, spec.help);
      } else {
        one->option = sub->add_option(spec.names, one->values, spec.help);
        one->option->type_name(spec.value_name);
        one->option->expected(1);
        one->option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        one->option->allow_extra_args(false);
      }
      one->option->group(spec.group);
      bound.push_back(std::move(one));
    }
    apps.emplace_back(&subcommand, sub);
  }

  const auto chosen = std::find_if(apps.begin(), apps.end(), [&](const auto& entry) {
    return !words.empty() && words.front() == entry.first->name;
  });
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App& asked = chosen == apps.end() ? app : *chosen->second;
    return {.kind = ParseResult::Kind::kText,
            .arguments = {},
            .text = asked.help(&asked == &app ? "" : "tidewheel")};
  } catch (const CLI::CallForVersion& e) {
    return {.kind = ParseResult::Kind::kText, .arguments = {}, .text = std::string(e.what()) + "\n"};
  } catch (const CLI::ParseError&) {
    if (chosen != apps.end()) return describe_failure(*chosen->first, words);
    return usage("'" + (words.empty() ? std::string() : words.front()) +
                 "': no such subcommand; 'tidewheel --help' lists them");
  }
  if (words.empty()) return usage("no subcommand: 'tidewheel --help' lists them");
  if (chosen == apps.end()) {
    return usage("'" + words.front() + "': no such subcommand; 'tidewheel --help' lists them");
  }

  ParseResult result;
  result.arguments.subcommand = chosen->first->name;
  for (const auto& one : bound) {
    if (one->option->count() == 0) continue;
    if (one->spec->kind == ValueKind::kFlag && one->option->results().front() != "true") {
      return usage("--" + without_dashes(one->spec->names) + ": takes no value");
    }
    std::vector<std::string>& values = result.arguments.values[without_dashes(one->spec->names)];
    values = one->values;
    if (values.empty()) values.emplace_back();
  }
  return result;
}

}  // namespace tidewheel::bench
