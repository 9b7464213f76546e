# shellcheck shell=bash
# What the scripts that build and run share. Sourced, after `set -euo pipefail`.

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$project/build

packages=(
  g++ meson ninja-build pkg-config python3
  libfmt-dev rapidjson-dev libcli11-dev doctest-dev python3-jsonschema
  clang-14 lld-14
)
tools=(g++ meson ninja pkg-config python3 clang-14 ld.lld-14)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null |
      grep -q '^install ok installed$' || printf '%s\n' "$package"
  done
}

# Goes on where it cannot install: the tools may come from elsewhere.
install_packages() {
  local missing=("${packages[@]}")
  if command -v dpkg-query >/dev/null; then
    mapfile -t missing < <(missing_packages)
  fi
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi
  if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
    say "as root on Debian this would install: ${missing[*]}"
    require_tools
    return
  fi
  say "installing ${missing[*]}"
  {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  } >&2 || die "apt-get could not install ${missing[*]}"
}

require_tools() {
  local tool missing=()
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then die "not found: ${missing[*]}"; fi
}

# configure FOLDER [MESON OPTION...]: sets up the build folder, or adapts one that is there.
configure() {
  local folder=$1
  shift
  if [[ -f $folder/meson-private/coredata.dat ]]; then
    meson setup --reconfigure "$folder" "$project" "$@" >&2
  else
    meson setup "$folder" "$project" "$@" >&2
  fi
}

# build_with_runtimes VERSION[,VERSION...] [TARGET...]: makes the runtimes available and builds against
# them what is named, else everything.
build_with_runtimes() {
  local version versions
  IFS=, read -ra versions <<<"$1"
  # The software agent is built with the HSA headers of 7.2, whatever runs over it.
  for version in 7.2 "${versions[@]}"; do
    "$project/scripts/runtime" "$version" >/dev/null || return
  done
  configure "$build" --buildtype=release "-Druntimes=$1" || return
  meson compile -C "$build" "${@:2}" >&2
}

find_library() {
  local found
  found=$(find "$build/src" -name libhipgraft.so -print -quit)
  [[ -n $found ]] || die "$build/src has no libhipgraft.so"
  printf '%s\n' "$found"
}
