#!/bin/sh
# Run kaboost with the compiled kernels of the image.
set -eu
. /opt/kaboost/image/cpu.sh

# Numba reads no cache from a folder that it cannot write to, so it gets a copy. An existing copy is
# kept: it may hold what another CPU had to compile.
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    cp -R /opt/kaboost/kernels "$NUMBA_CACHE_DIR.$$"
    mv "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR"
fi
exec kaboost "$@"
