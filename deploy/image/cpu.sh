# Sourced: set the CPU that kernels are compiled for, the same in the build and at the start. By
# default numba compiles for the CPU it runs on, and kernels of one machine miss the cache on another;
# x86-64-v3 (any server since 2015) is as fast. Other CPUs compile once in a container's life.
if [ -z "${NUMBA_CPU_NAME:-}" ] && [ "$(uname -m)" = x86_64 ] &&
    grep -qw avx2 /proc/cpuinfo && grep -qw bmi2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    export NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=
fi
