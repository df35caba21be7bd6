#!/bin/sh
# Writes a version into every place that cannot read it from herodotus_record/version.py.
#
#   scripts/set-version.sh 0.2.0
#
# docs/packages.md has the other steps of a release.
set -eu

case ${1:-} in
    [0-9]*.[0-9]*.[0-9]*) version=$1 ;;
    *)
        sed -n '2,6s/^# \{0,1\}//p' "$0"
        [ "${1:-}" = --help ] || [ "${1:-}" = -h ] || exit 2
        exit 0
        ;;
esac

cd "$(dirname "$0")/.."

edit() { # edit FILE SED-SCRIPT: without -i, which some versions of sed lack
    sed "$2" "$1" >"$1.new"
    if cmp -s "$1" "$1.new"; then
        rm "$1.new"
    else
        cat "$1.new" >"$1" # unlike mv, this keeps the mode of the file
        rm "$1.new"
        echo "$1"
    fi
}

edit herodotus_record/version.py "s/^__version__ = .*/__version__ = \"$version\"/"
edit pyproject.toml "s/\"kubectl-herodotus-servers==[^\"]*\"/\"kubectl-herodotus-servers==$version\"/"
edit packages/servers/pyproject.toml "s/\"kubectl-herodotus==[^\"]*\"/\"kubectl-herodotus==$version\"/"
for file in package.json package-lock.json; do # further down are versions of its dependencies
    edit "plugins/headlamp/$file" "1,12s/^\( *\"version\": \).*/\1\"$version\",/"
done
find deploy -name '*.y*ml' | sort | while IFS= read -r manifest; do
    edit "$manifest" "
        s|\(/herodotus-[a-z]*\):[0-9][0-9A-Za-z.-]*|\1:$version|
        s|\(newTag: \)[0-9][0-9A-Za-z.-]*|\1$version|
    "
    case $manifest in */Chart.yaml) edit "$manifest" "
        s|^\(version: \).*|\1$version|
        s|^\(appVersion: \).*|\1\"$version\"|
    " ;; esac
done
