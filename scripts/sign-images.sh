#!/bin/sh
# Signs the images that push-images.sh has pushed, each by its digest, and attests its bill of materials. For the
# workflow, whose identity the signature carries; there is no key.
#
#   DIGESTS=DIR scripts/sign-images.sh SBOM
#
# DIGESTS: the directory in which build-images.sh stored docker's metadata. Needs cosign, and `docker login`.
set -eu

case ${1:-} in '' | -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    [ $# -gt 0 ] || exit 2
    exit 0
    ;;
esac

registry=${REGISTRY:-ghcr.io/herodotus-scheduler}
for image in scheduler endpoint agents; do
    metadata=${DIGESTS:?}/herodotus-$image.json
    digest=$(sed -n 's/.*"containerimage\.digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$metadata")
    [ -n "$digest" ] || { echo "error: no digest in $metadata" >&2; exit 1; }
    cosign sign --yes "$registry/herodotus-$image@$digest"
    cosign attest --yes --type cyclonedx --predicate "$1" "$registry/herodotus-$image@$digest"
done
