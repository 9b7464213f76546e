# shellcheck shell=bash
# Unpacks Debian packages, and what they depend on, into a folder: without root, and without touching
# the system's packages and lists. Sourced, after `set -euo pipefail`. Who calls fetch_tree defines:
#
#   say, die, wanted_version PACKAGE VERSION (will it do?), check_tree FOLDER (dies if incomplete)
#   purpose       what the packages are, for messages
#   suites        in order of preference
#   packages      the roots; the version of the first is what the tree is stamped with
#   cache, tree   the cache folder, and the folder in it that is to be made
#   stamp_name    the file in the tree that holds the version, and shows that the tree is whole
# shellcheck disable=SC2154  # defined by the caller

cache_folder() { printf '%s' "${HIPGRAFT_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/hipgraft}"; }

# The software agent stands in for the HSA library; the rest of this list is only needed by
# compilers, locales or documentation.
readonly skipped_dependencies='^(libhsa-runtime64-1|libclang-common-.*|gcc-.*-base|libc-gconv-.*|.*-dev)$'

tree_loader() { printf '%s' "$1/usr/lib64/ld-linux-x86-64.so.2"; }

# Prints "URI keyring" for every apt source that looks like a Debian mirror, likeliest first.
# shellcheck disable=SC2016
readonly mirror_filter='
function offer(uri, suites, components, keyring,   rank) {
  if (uri !~ /^[a-z+]+:/ || uri ~ /security/ || (" " components " ") !~ / main /) return
  if ((" " suites " ") !~ / (bullseye|bookworm|trixie|forky|sid|stable|testing|unstable|experimental) /)
    return
  rank = uri ~ /\/debian\/?$/ ? 1 : 2
  print rank, uri, keyring ~ /^\// ? keyring : "-"
}
function flush_stanza(   uris, n, i) {
  if (field["types"] ~ /deb( |$)/ && tolower(field["enabled"]) != "no") {
    n = split(field["uris"], uris, " ")
    for (i = 1; i <= n; i++)
      offer(uris[i], field["suites"], field["components"], field["signed-by"])
  }
  split("", field)
}
FNR == 1 { flush_stanza() }
/^[ \t]*#/ { next }
FILENAME ~ /\.sources$/ && /^[ \t]*$/ { flush_stanza(); next }
FILENAME ~ /\.sources$/ && /^[ \t]/ { sub(/^[ \t]+/, ""); field[key] = field[key] " " $0; next }
FILENAME ~ /\.sources$/ {
  key = tolower($0); sub(/:.*/, "", key)
  value = $0; sub(/^[^:]*:[ \t]*/, "", value); field[key] = value
  next
}
$1 == "deb" {
  line = $0; options = ""
  if (match(line, /\[[^]]*\]/)) {
    options = substr(line, RSTART + 1, RLENGTH - 2)
    line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
  }
  keyring = ""
  if (match(options, /signed-by=[^ ,]+/)) keyring = substr(options, RSTART + 10, RLENGTH - 10)
  n = split(line, word, " "); components = ""
  for (i = 4; i <= n; i++) components = components " " word[i]
  offer(word[2], word[3], components, keyring)
}
END { flush_stanza() }'

find_mirror() { # sets mirror and keyring
  mirror=${HIPGRAFT_DEBIAN_MIRROR:-} keyring=-
  if [[ -z $mirror ]]; then
    local list_file parts_dir files=()
    eval "$(apt-config shell list_file Dir::Etc::sourcelist/f parts_dir Dir::Etc::sourceparts/d)"
    shopt -s nullglob
    files=("${parts_dir:-/etc/apt/sources.list.d/}"/*.sources "${parts_dir:-/etc/apt/sources.list.d/}"/*.list)
    shopt -u nullglob
    if [[ -r ${list_file:-} ]]; then files+=("$list_file"); fi
    [[ ${#files[@]} -gt 0 ]] || die "apt has no sources; set HIPGRAFT_DEBIAN_MIRROR"
    read -r _ mirror keyring < <(awk "$mirror_filter" "${files[@]}" | sort -s -n -k1,1) || true
    [[ -n $mirror ]] || die "no Debian mirror in apt's sources; set HIPGRAFT_DEBIAN_MIRROR"
  fi
  # The archive keyring also has the keys of newer suites, which a per-release key lacks.
  local archive=/usr/share/keyrings/debian-archive-keyring.gpg
  if [[ ($keyring == - || ! -r $keyring) && -r $archive ]]; then keyring=$archive; fi
}

write_apt_configuration() {
  mkdir -p "$work"/apt/{lists/partial,archives/partial,parts}
  : >"$work/apt/status"
  : >"$work/apt/sources.list"
  local suite options=""
  if [[ $keyring != - ]]; then options="[signed-by=$keyring] "; fi
  for suite in "${suites[@]}"; do
    printf 'deb %s%s %s main\n' "$options" "$mirror" "$suite" >>"$work/apt/sources.list"
  done
  cat >"$work/apt/apt.conf" <<END
Dir::State "$work/apt";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Cache::archives "$work/apt/archives";
Dir::Cache::pkgcache "$work/apt/pkgcache.bin";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "$work/apt/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$work/apt/parts";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
END
}

# -c is read last, so that it wins over the system's configuration.
private_apt() {
  local program=$1
  shift
  "$program" -q -c "$work/apt/apt.conf" "$@"
}

update_lists() {
  local suite log=$work/apt/update.log
  say "reading the package lists of ${suites[*]}"
  private_apt apt-get update >"$log" 2>&1 || true
  for suite in "${suites[@]}"; do
    compgen -G "$work/apt/lists/*_dists_${suite}_main_binary-amd64_Packages*" >/dev/null ||
      say "no package list of $suite: $(grep -m1 '^[EW]:' "$log" || echo 'reason unknown')"
  done
  compgen -G "$work/apt/lists/*_Packages*" >/dev/null ||
    die "no package list could be fetched (network?); last message: $(tail -n1 "$log")"
}

offered_version() { # package -> "version suite" of the most preferred suite
  local suite candidate source listing
  listing=$(private_apt apt-cache madison "$1" 2>/dev/null)
  for suite in "${suites[@]}"; do
    while IFS='|' read -r _ candidate source; do
      candidate=${candidate//[[:space:]]/}
      [[ $source == *" $suite/main amd64 Packages"* ]] || continue
      wanted_version "$1" "$candidate" || continue
      printf '%s %s\n' "$candidate" "$suite"
      return 0
    done <<<"$listing"
  done
  return 1
}

dependencies() { # package=version -> package names, the first of alternatives
  private_apt apt-cache show --no-all-versions "$1" |
    sed -nE 's/^(Pre-)?Depends: //p' | tr ',' '\n' |
    sed -E 's/\|.*//; s/\(.*//; s/:[a-z0-9]+ *$//; s/[[:space:]]//g' | grep -v '^$' || true
}

resolve_packages() { # sets selection ("package=version" each, the first root first)
  local -A seen=()
  local queue=("${packages[@]}") package found suite dependency wanted=" ${packages[*]} "
  selection=()
  while [[ ${#queue[@]} -gt 0 ]]; do
    package=${queue[0]}
    queue=("${queue[@]:1}")
    [[ -z ${seen[$package]:-} ]] || continue
    seen[$package]=1
    if [[ $package =~ $skipped_dependencies && $wanted != *" $package "* ]]; then continue; fi
    found=$(offered_version "$package") || die "no suite of ${suites[*]} offers $package for $purpose"
    read -r found suite <<<"$found"
    if [[ ${#selection[@]} -eq 0 ]]; then say "$package $found from $suite"; fi
    selection+=("$package=$found")
    while read -r dependency; do
      if [[ -n $dependency ]]; then queue+=("$dependency"); fi
    done < <(dependencies "$package=$found")
  done
}

# Prints the bytes to fetch and the bytes they unpack to.
selection_size() {
  private_apt apt-cache show --no-all-versions "${selection[@]}" |
    awk '/^Size: / {fetched += $2} /^Installed-Size: / {unpacked += $2 * 1024}
      END {printf "%.0f %.0f\n", fetched, unpacked}'
}

# What an earlier try has fetched already counts as free.
check_free_space() { # bytes wanted
  local free_kib used_kib
  free_kib=$(df -kP "$cache" | awk 'NR == 2 {print $4}')
  used_kib=$(du -sk "$work" | cut -f1)
  [[ $((free_kib + used_kib)) -gt $(($1 / 1024)) ]] ||
    die "$cache has $((free_kib / 1024)) MiB free, of $(($1 / 1048576)) MiB needed"
}

# apt continues partial files, and checks size and hash of every one.
download_packages() {
  local fetched unpacked
  read -r fetched unpacked < <(selection_size)
  say "fetching ${#selection[@]} packages, $((fetched / 1000000)) MB," \
    "which unpack to $((unpacked / 1000000)) MB"
  check_free_space $((fetched + unpacked))
  mkdir -p "$work/debs"
  (cd "$work/debs" && private_apt apt-get download "${selection[@]}") >"$work/download.log" 2>&1 ||
    die "download failed: $(grep -m1 '^E:' "$work/download.log" || tail -n1 "$work/download.log")"
}

deb_file() { # package=version
  printf '%s' "$work/debs/${1%%=*}_${1#*=}_"*.deb
}

unpack_packages() {
  local item file
  rm -rf "$work/tree"
  mkdir -p "$work/tree"
  for item in "${selection[@]}"; do
    file=$(deb_file "${item/:/%3a}") # how apt writes an epoch
    [[ -r $file ]] || die "the package file of $item is missing"
    dpkg-deb -x "$file" "$work/tree"
  done
  # Debian's LLVM looks for its neighbours in $ORIGIN/../lib, which is no folder of the packages.
  ln -s x86_64-linux-gnu "$work/tree/usr/lib/lib"
}

require_programs() {
  local program
  for program in apt-get apt-cache apt-config dpkg-deb flock awk; do
    command -v "$program" >/dev/null ||
      die "the Debian packages of $purpose need $program to be unpacked, which is missing"
  done
  [[ $(uname -m) == x86_64 ]] || die "the Debian packages of $purpose can be used on x86_64 only"
}

fetch_tree() {
  local lock first
  require_programs
  mkdir -p "$cache"
  exec {lock}>"$tree.lock"
  if ! flock -n "$lock"; then
    say "waiting for another run that fetches $purpose"
    flock "$lock"
  fi
  # A run that held the lock before may have done the work.
  if [[ -r $tree/$stamp_name ]]; then
    exec {lock}>&-
    return
  fi
  work=$tree.work
  find_mirror
  write_apt_configuration
  update_lists
  resolve_packages
  download_packages
  say "unpacking"
  unpack_packages
  check_tree "$work/tree"
  first=${selection[0]}
  printf '%s\n' "${first#*=}" >"$work/tree/$stamp_name"
  rm -rf "$tree"
  mv "$work/tree" "$tree"
  rm -rf "$work"
  exec {lock}>&-
}
