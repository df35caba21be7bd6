#!/bin/sh
# Builds all images for every platform and pushes them, tagged with this version.
#
#   scripts/push-images.sh [ARGUMENT OF docker buildx build ...]
#   REGISTRY=registry.example.com/team PLATFORMS=linux/amd64 scripts/push-images.sh
#
# Needs `docker login`, and for foreign platforms a builder that has them (docker buildx create --use).
set -eu

case ${1:-} in -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

exec "$(dirname "$0")/build-images.sh" --platform "${PLATFORMS:-linux/amd64,linux/arm64}" --push "$@"
