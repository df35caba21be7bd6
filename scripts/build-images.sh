#!/bin/sh
# Builds all images for this machine's docker, tagged with this version, or with TAG.
#
#   scripts/build-images.sh [ARGUMENT OF docker buildx build ...]
#   REGISTRY=registry.example.com/team BASE=python:3.13-slim scripts/build-images.sh --no-cache
#
# DIGESTS=DIR stores docker's metadata of each image there, including its digest.
set -eu

case ${1:-} in -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

cd "$(dirname "$0")/.."
command -v docker >/dev/null 2>&1 || { echo "error: docker is not on PATH" >&2; exit 1; }

registry=${REGISTRY:-ghcr.io/herodotus-scheduler}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' herodotus_record/version.py)
tag=${TAG:-$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)

[ -z "${DIGESTS:-}" ] || mkdir -p "$DIGESTS"
case " $* " in *" --push "*) ;; *) set -- --load "$@" ;; esac
for image in scheduler endpoint agents; do
    echo "Building $registry/herodotus-$image:$tag"
    docker buildx build --target "$image" --tag "$registry/herodotus-$image:$tag" \
        --build-arg "VERSION=$version" --build-arg "REVISION=$revision" ${BASE:+--build-arg "BASE=$BASE"} \
        ${DIGESTS:+--metadata-file "$DIGESTS/herodotus-$image.json"} "$@" .
done
