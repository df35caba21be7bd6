#!/bin/sh
# Makes the environment of one image, /opt/herodotus, from the lock and from the wheels in /wheels.
#
#   packages/images/install.sh INSTALLATION
#
# INSTALLATION is a name of packages/lock.txt. `--no-deps`: the lock names everything, without what packages/images/*.txt leave out.
set -eu

pip() {
    /build/bin/python -m pip --python /opt/herodotus/bin/python install --no-cache-dir --no-compile --no-deps "$@"
}

python -m venv --without-pip /opt/herodotus
packages/locked.sh "$1" >/build/requirements.txt
pip --only-binary :all: --require-hashes --requirement /build/requirements.txt
pip --no-index /wheels/*.whl
: >/opt/herodotus/herodotus-image # herodotus_record/installation.py tells by it how an image gets an extra

# Of these packages the programs import other parts: herodotus_kube reads kubeconfigs, and CPython's zstandard is in C.
cd /opt/herodotus/lib/python3*/site-packages
rm -r kubernetes/aio kubernetes/client/api kubernetes/client/models/[a-z]*.py zstandard/_cffi.*
find . -type d -name tests -prune -exec rm -r {} +
/opt/herodotus/bin/python -m compileall -q .
