#!/bin/sh
# Run kaboost on the kernels that the image carries.
set -eu
. /opt/kaboost/image/cpu.sh

# Numba reads no cache from a folder that it cannot write to, so it gets a copy. One that is there
# already is kept: it may hold what another CPU had to compile.
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    cp -R /opt/kaboost/kernels "$NUMBA_CACHE_DIR.$$"
    mv "$NUMBA_CACHE_DIR.$$" "$NUMBA_CACHE_DIR"
fi
exec kaboost "$@"
