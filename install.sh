#!/bin/sh
# Installs Limulus for one user, or removes it again. `sh install.sh --help` prints the options.
#
# Everything is a function and the last line calls it, so a script that was cut off in transfer does nothing.
set -eu

# Where the packages are, if LIMULUS_INSTALL_URL is not set. `cargo xtask package --url` writes an address here.
default_url=''

usage() {
    cat <<'USAGE'
Install Limulus for this user.

Usage: sh install.sh [--to DIR] [--version V] [--dry-run] [--force]
       sh install.sh --uninstall [--purge] [--dry-run]

  --to DIR      The folder of the program (default: ~/.local/bin)
  --version V   The version, such as 0.2.0 (default: the one that is offered)
  --dry-run     Print what would be done and change nothing
  --force       Replace a program that this script did not install
  --uninstall   Remove everything that this script wrote; conversations and settings stay
  --purge       With --uninstall: remove conversations and settings too
  --help        Print this text

LIMULUS_INSTALL_URL names where the packages are: an https address (http only on this machine) or a folder. It holds
SHA256SUMS and limulus-VERSION-TARGET.tar.gz; nothing is unpacked unless its checksum is in SHA256SUMS.
Completions and manual pages go to ~/.local/share (XDG_DATA_HOME).
USAGE
}

say() { printf '%s\n' "$*"; }

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  %s\n' "$2" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# --- the choices ---------------------------------------------------------------------------------------------------

parse() {
    to='' version='' dry_run=no force=no action=install purge=no
    while [ $# -gt 0 ]; do
        case $1 in
        --to | --version)
            if [ -z "${2:-}" ]; then fail "$1 needs a value" "sh install.sh --help prints the options"; fi
            if [ "$1" = --to ]; then to=$2; else version=${2#v}; fi
            shift
            ;;
        --dry-run) dry_run=yes ;;
        --force) force=yes ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        --help | -h) action=help ;;
        *) fail "there is no option $1" "sh install.sh --help prints the options" ;;
        esac
        shift
    done
    if [ "$purge" = yes ] && [ "$action" = install ]; then fail "--purge goes with --uninstall"; fi
}

# The folders. Each must be absolute and of one line: they are lines of the manifest.
choose_folders() {
    [ -n "${HOME:-}" ] || fail "HOME is not set"
    data=${XDG_DATA_HOME:-$HOME/.local/share}
    to=${to:-$HOME/.local/bin}
    case $to in /*) ;; *) to=$PWD/$to ;; esac
    for folder in "$to" "$data"; do
        case $folder in
        *'
'*) fail "the name of a folder has a line break in it" ;;
        /*) ;;
        *) fail "$folder is not an absolute path" ;;
        esac
    done
    while [ "$to" != / ] && [ "${to%/}" != "$to" ]; do to=${to%/}; done
    while [ "$data" != / ] && [ "${data%/}" != "$data" ]; do data=${data%/}; done
    manifest=$data/limulus-install/manifest
    program=$to/limulus
}

find_target() {
    system=$(uname -s) machine=$(uname -m)
    [ "$system" = Linux ] || fail "there are no packages for $system" "Limulus runs on Linux"
    case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there are no packages for $machine, only for x86_64 and aarch64" \
        "build it: cargo install --locked --path crates/cli" ;;
    esac
}

# The address without a slash at its end. Whoever can change an answer on its way can change both files, so not over plain http.
find_source() {
    url=${LIMULUS_INSTALL_URL:-$default_url}
    [ -n "$url" ] || fail "no address of packages is known" "set LIMULUS_INSTALL_URL to an address or a folder with packages"
    while [ "${url%/}" != "$url" ]; do url=${url%/}; done
    case $url in
    https://*) ;;
    http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]* | http://\[::1\]*) ;;
    http://*) fail "$url is not encrypted" "use https; plain http only for this machine" ;;
    *://*) fail "$url has a scheme that this script does not know" "use https, or a folder" ;;
    *) [ -d "$url" ] || fail "$url is no folder" "set LIMULUS_INSTALL_URL to an address or a folder with packages" ;;
    esac
    if have sha256sum; then
        sums=sha256sum
    elif have shasum; then
        sums='shasum -a 256'
    else
        fail "sha256sum is missing, so no download can be verified" "install coreutils"
    fi
    for tool in tar gzip mktemp sed grep; do have "$tool" || fail "$tool is missing"; done
    case $url in *://*) ;; *) return 0 ;; esac
    if have curl; then
        fetcher=curl
    elif have wget; then
        fetcher=wget
        tries=''
        # That of busybox has no such option.
        if wget --help 2>&1 | grep -q -e '--tries'; then tries=--tries=2; fi
    else
        fail "neither curl nor wget is there to download with" "install one of them"
    fi
}

# --- download and verify -------------------------------------------------------------------------------------------

# fetch NAME: into the work folder. A download that ends early fails, here or at its checksum.
fetch() {
    case $url in
    *://*)
        if [ "$fetcher" = curl ]; then
            curl -fsSL --proto '=https,http' --proto-redir '=https' --connect-timeout 20 --speed-limit 1 --speed-time 60 \
                --retry 1 -o "$work/$1" "$url/$1" || return 1
        else
            # shellcheck disable=SC2086 # no word if it is empty
            wget -q $tries -T 60 -O "$work/$1" "$url/$1" || return 1
        fi
        ;;
    *) cp "$url/$1" "$work/$1" || return 1 ;;
    esac
}

free_kib() { df -Pk "$1" 2>/dev/null | sed -n '2s/^[^ ]* *[0-9]* *[0-9]* *\([0-9]*\) .*/\1/p'; }

# What to say of a folder that could not be written.
blame() {
    free=$(free_kib "$1")
    if [ -n "$free" ] && [ "$free" -lt 102400 ]; then
        printf '%s' "no space: $1 has $free KiB left"
    else
        printf '%s' "check the space and the permissions of $1"
    fi
}

make_work() {
    work=$(mktemp -d "${TMPDIR:-/tmp}/limulus-install.XXXXXX") || fail "no temporary folder can be made" "$(blame "${TMPDIR:-/tmp}")"
}

# The package for this machine in SHA256SUMS: the static one, else the one for glibc where there is glibc.
choose_package() {
    fetch SHA256SUMS || fail "$url/SHA256SUMS cannot be downloaded" "check LIMULUS_INSTALL_URL and the network"
    kinds=musl
    if have getconf && getconf GNU_LIBC_VERSION >/dev/null 2>&1; then kinds='musl gnu'; fi
    for kind in $kinds; do
        target=$machine-unknown-linux-$kind
        if [ -n "$version" ]; then
            names="limulus-$version-$target.tar.gz"
            [ -n "$(sum_of "$names")" ] || names=''
        else
            names=$(sed -n "s/^[0-9a-f]\{64\}  \(limulus-[0-9][0-9A-Za-z.+~-]*-$target\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
        fi
        [ -z "$names" ] || break
    done
    [ -n "$names" ] || fail "$url has no package ${version:+of version $version }for $machine" "see $url/SHA256SUMS"
    [ "$(printf '%s\n' "$names" | grep -c .)" -eq 1 ] || fail "$url has several versions: $(printf '%s' "$names" | tr '\n' ' ')" \
        "choose one with --version"
    package=$names
    folder=${package%.tar.gz}
    version=${folder#limulus-}
    version=${version%"-$target"}
}

# The checksum that SHA256SUMS has for a file.
sum_of() {
    sed -n 's/^\([0-9a-f]\{64\}\)  /\1 /p' "$work/SHA256SUMS" | while read -r sum name; do
        if [ "$name" = "$1" ]; then printf '%s\n' "$sum"; fi
    done | sed 1q
}

# Nothing of the package is read by another program before its checksum is right.
download() {
    fetch "$package" || fail "$url/$package cannot be downloaded whole" "run this again; $(blame "$work")"
    wanted=$(sum_of "$package")
    found=$($sums "$work/$package") || fail "the checksum of $package cannot be computed"
    found=${found%% *}
    [ "$found" = "$wanted" ] || fail "$package does not have the checksum of SHA256SUMS: it is not installed" \
        "the download was cut short or changed; run this again (wanted $wanted, found $found)"
    gzip -dc "$work/$package" >"$work/package.tar" || fail "$package cannot be unpacked" "$(blame "$work")"
    (cd "$work" && tar -xf package.tar) || fail "$package cannot be unpacked" "$(blame "$work")"
    rm -f "$work/package.tar" "$work/$package"
    says=$("$work/$folder/limulus" --version </dev/null 2>&1) || fail "the program does not start here: $says" \
        "build it: cargo install --locked --path crates/cli"
    [ "$says" = "limulus $version" ] || fail "the program of $package says \"$says\", not \"limulus $version\""
}

# --- install -------------------------------------------------------------------------------------------------------

# Each file of the package with its place, `FROM<tab>TO` on a line.
list_files() {
    printf '%s\t%s\n' limulus "$program"
    printf '%s\t%s\n' completions/limulus.bash "$data/bash-completion/completions/limulus"
    printf '%s\t%s\n' completions/_limulus "$data/zsh/site-functions/_limulus"
    printf '%s\t%s\n' completions/limulus.fish "$data/fish/vendor_completions.d/limulus.fish"
    for page in "$work/$folder"/man/man1/*.1; do
        printf '%s\t%s\n' "man/man1/${page##*/}" "$data/man/man1/${page##*/}"
    done
}

# The folders above a path that are not there yet, outermost first, each with a slash at its end.
missing_folders() {
    above=${1%/*} missing=''
    while [ -n "$above" ] && [ ! -e "$above" ]; do
        missing="$above/
$missing"
        above=${above%/*}
    done
    printf '%s' "$missing"
}

# Whether a path is a line of the manifest.
is_ours() { [ -f "$manifest" ] && grep -q -F -x -e "$1" "$manifest"; }

# Writes the manifest before anything else, so that --uninstall knows of all that was begun. Folders are those that were missing.
write_manifest() {
    (
        cut -f 2 "$work/files"
        printf '%s\n' "$manifest"
        { cut -f 2 "$work/files" && printf '%s\n' "$manifest"; } | while read -r path; do missing_folders "$path"; done
        if [ -f "$manifest" ]; then cat "$manifest"; fi
    ) | LC_ALL=C sort -u >"$work/manifest"
    if [ ! -f "$manifest" ]; then rolls_back=yes; fi
    replace "$work/manifest" "$manifest" 644 || fail "$manifest cannot be written" "$(blame "$data")"
}

# replace FROM TO MODE: a copy beside the place, then a rename, so that the place always has a whole file.
replace() {
    mkdir -p "${2%/*}" && rm -f "$2.new-limulus" && cp "$1" "$2.new-limulus" && chmod "$3" "$2.new-limulus" &&
        mv -f "$2.new-limulus" "$2"
}

put() {
    if ! replace "$1" "$2" "$3"; then
        rm -f "$2.new-limulus" || true
        fail "$2 cannot be written" "$(blame "${2%/*}")"
    fi
}

# Removes what an earlier version installed and this one does not have, then the folders that are empty by that.
remove_old() {
    cut -f 2 "$work/files" >"$work/now"
    printf '%s\n' "$manifest" >>"$work/now"
    while read -r path; do
        case $path in */) continue ;; esac
        if ! grep -q -F -x -e "$path" "$work/now"; then rm -f "$path"; fi
    done <"$work/manifest"
    remove_folders "$work/manifest"
    while read -r path; do
        case $path in
        */) if [ -d "$path" ]; then printf '%s\n' "$path"; fi ;;
        *) if grep -q -F -x -e "$path" "$work/now"; then printf '%s\n' "$path"; fi ;;
        esac
    done <"$work/manifest" >"$work/manifest.now"
    put "$work/manifest.now" "$manifest" 644
}

# Removes the folders of a manifest that are empty, innermost first.
remove_folders() {
    LC_ALL=C sort -r "$1" | while read -r path; do
        case $path in */) rmdir "$path" 2>/dev/null || true ;; esac
    done
}

install() {
    find_target
    find_source
    make_work
    choose_package
    if { [ -e "$program" ] || [ -h "$program" ]; } && ! is_ours "$program" && [ "$force" = no ]; then
        fail "$program is there, and this script did not install it" "remove it, name another folder with --to, or give --force"
    fi
    [ ! -d "$program" ] || fail "$program is a folder"
    if [ "$dry_run" = yes ]; then
        say "would download $url/$package and verify its checksum"
        say "would install $program, and completions and manual pages below $data"
        say "would list what it wrote in $manifest"
        return 0
    fi
    download
    list_files >"$work/files"
    write_manifest
    # The program is last: if it is new, so is all that belongs to it.
    LC_ALL=C sort -r "$work/files" | while IFS='	' read -r from path; do
        if [ "$from" != limulus ]; then put "$work/$folder/$from" "$path" 644; fi
    done
    put "$work/$folder/limulus" "$program" 755
    rolls_back=no
    remove_old
    say "limulus $version is installed: $program"
    case ":${PATH:-}:" in
    *":$to:"*) say "begin with: limulus setup" ;;
    *) say "$to is not in PATH. Add it: export PATH=\"$to:\$PATH\"" ;;
    esac
}

# --- remove --------------------------------------------------------------------------------------------------------

# The folders with what the user has made: conversations and settings.
homes() {
    printf '%s\n' "${LIMULUS_HOME:-$data/limulus}"
    printf '%s\n' "${XDG_CONFIG_HOME:-$HOME/.config}/limulus"
}

# Removes what the manifest of the work folder lists; what is written beside a file first goes too.
remove_all() {
    while read -r path; do
        case $path in
        */ | "$manifest") ;;
        /*) rm -f "$path" "$path.new-limulus" || fail "$path cannot be removed" "the rest is still listed in $manifest" ;;
        esac
    done <"$work/manifest"
    rm -f "$manifest" "$manifest.new-limulus"
    remove_folders "$work/manifest"
}

uninstall() {
    if [ ! -f "$manifest" ] && [ "$purge" = no ]; then
        fail "nothing is installed: $manifest is not there"
    fi
    make_work
    if [ -f "$manifest" ]; then cp "$manifest" "$work/manifest"; else : >"$work/manifest"; fi
    if [ "$dry_run" = yes ]; then
        sed 's/^/would remove /' "$work/manifest"
        if [ "$purge" = yes ]; then homes | sed 's/^/would remove all of /'; fi
        return 0
    fi
    remove_all
    if [ -s "$work/manifest" ]; then say "limulus is removed"; fi
    unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/limulus.service
    if [ -f "$unit" ]; then say "systemd still has $unit: systemctl --user disable --now limulus, then remove it"; fi
    homes >"$work/homes"
    while read -r home; do
        [ -d "$home" ] || continue
        if [ "$purge" = no ]; then
            say "left alone: $home (--uninstall --purge removes it)"
        else
            purge_home "$home"
        fi
    done <"$work/homes"
    if [ "$purge" = yes ]; then remove_folders "$work/manifest"; fi
}

# Removes a folder only if it is certain that it is one of Limulus.
purge_home() {
    if [ -f "$1/journal.db" ] || [ -f "$1/config.toml" ] || [ "${1##*/}" = limulus ]; then
        case $(cd "$1" && pwd -P) in
        / | "$(cd "$HOME" && pwd -P)") fail "$1 is not removed: it is no folder of Limulus alone" ;;
        esac
        rm -rf "$1" || fail "$1 cannot be removed"
        say "removed: $1"
    else
        say "left alone: $1 does not look like a folder of Limulus"
    fi
}

# --- the whole -----------------------------------------------------------------------------------------------------

# A first installation that fails leaves nothing. One that fails over another leaves the program of that one.
clean() {
    if [ "$rolls_back" = yes ]; then remove_all; fi
    if [ -n "$work" ]; then rm -rf "$work"; fi
}

main() {
    work='' rolls_back=no
    umask 022
    parse "$@"
    if [ "$action" = help ]; then usage && return 0; fi
    choose_folders
    trap clean EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    "$action"
}

# Braces: a line that is cut off is no command.
{ main "$@"; }
