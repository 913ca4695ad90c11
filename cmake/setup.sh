# cmake/setup.sh: sourced by bench/run, tests/run and .ci/run. Installs what is missing, configures, builds.
#   tw_packages [tsa]        installs missing Debian packages, or prints the one line to run and exits 1
#   tw_build PRESET [TARGET…] configures build/PRESET when needed and builds it, with progress on a terminal

tw_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

tw_say() { printf '%s\n' "tidewheel: $*" >&2; }

tw_packages() {
  local wanted=" always $* " name when missing=()
  while read -r name when; do
    case "$name" in ''|'#'*) continue ;; esac
    case "$wanted" in *" ${when:-always} "*) ;; *) continue ;; esac
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done < "$tw_root/cmake/packages.txt"
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      tw_say "packages are missing; run: apt-get install --no-install-recommends ${missing[*]}"
      exit 1
    fi
  fi
  tw_say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  # The second try is with fresh lists: a new machine has none, an old one has stale ones.
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "${missing[@]}" >"$log" 2>&1; then
    if ! { "${as_root[@]}" apt-get update >"$log" 2>&1 &&
           "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
             "${missing[@]}" >>"$log" 2>&1; }; then
      tail -n 5 "$log" >&2
      rm -f "$log"
      tw_say "could not install; run: apt-get install --no-install-recommends ${missing[*]}"
      exit 1
    fi
  fi
  rm -f "$log"
}

# The cache is given half a gigabyte's worth of objects; a user's own settings win.
tw_build() {
  local preset=$1
  shift
  cd "$tw_root" || exit 1
  if [ ! -f "build/$preset/build.ninja" ]; then
    tw_say "configuring build/$preset"
    if ! cmake --preset "$preset" >"build-$preset.log" 2>&1; then
      cat "build-$preset.log" >&2
      rm -f "build-$preset.log"
      tw_say "configuring build/$preset failed (above)"
      exit 1
    fi
    rm -f "build-$preset.log"
  fi
  tw_say "building build/$preset"
  local log="build/$preset/build.log"
  if [ -t 1 ]; then
    cmake --build "build/$preset" ${1:+--target "$@"} || { tw_say "the build failed (above)"; exit 1; }
  elif ! cmake --build "build/$preset" ${1:+--target "$@"} >"$log" 2>&1; then
    grep -E -A 12 'error|FAILED' "$log" | head -n 60 >&2
    tw_say "the build failed: $log"
    exit 1
  fi
}
