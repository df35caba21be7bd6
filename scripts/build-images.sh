#!/bin/sh
# Builds all images for this machine's docker, tagged with the version in pyproject.toml.
#
#   scripts/build-images.sh [ARGUMENT OF docker buildx build ...]
#   REGISTRY=registry.example.com/team BASE=python:3.13-slim scripts/build-images.sh --no-cache
set -eu

case ${1:-} in -h | --help)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

cd "$(dirname "$0")/.."
command -v docker >/dev/null 2>&1 || { echo "error: docker is not on PATH" >&2; exit 1; }

registry=${REGISTRY:-ghcr.io/herodotus-scheduler}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)

build() { # build NAME DOCKERFILE ARGUMENT...
    name=$1 file=$2
    shift 2
    echo "Building $registry/$name:$version"
    docker buildx build ${BASE:+--build-arg "BASE=$BASE"} --file "$file" --tag "$registry/$name:$version" "$@" .
}

case " $* " in *" --push "*) ;; *) set -- --load "$@" ;; esac
build herodotus-scheduler Dockerfile "$@"
build herodotus-endpoint herodotus_endpoint/Dockerfile "$@"
build herodotus-agents herodotus_agents/Dockerfile "$@"
