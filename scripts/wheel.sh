#!/usr/bin/env bash
# Makes the wheel that runs where none of Debian's libraries are: dist/lockstep_runtime-*.whl, tagged
# manylinux_2_36_x86_64. Then installs it into a fresh environment and looks at what it loads there.
#
#   scripts/wheel.sh           build, repair, check
#   scripts/wheel.sh --demo    and run the demo from it
#
# What the programs need is put inside by auditwheel; the extension needs nothing but the system.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# In the folder of the release build, by the same flags: the wheel holds what was tested, and only
# what is new is compiled. (`pip install .` uses build/wheel, and fetches its tools itself.)
wheel_build() {
  rm -rf "$setup_root/build/wheels"
  PATH="$setup_root/build/venv/bin:$PATH" CMAKE_BUILD_PARALLEL_LEVEL=$(setup_jobs) python -m pip wheel \
    --no-deps --no-build-isolation --disable-pip-version-check \
    --config-settings build-dir="$setup_root/build/release" --config-settings cmake.define.LOCKSTEP_TESTS=ON \
    --wheel-dir "$setup_root/build/wheels" "$setup_root"
}

wheel_repair() {
  rm -f "$setup_root"/dist/lockstep_runtime-*.whl
  mkdir -p "$setup_root/dist"
  PATH="$setup_root/build/venv/bin:$PATH" auditwheel repair --plat manylinux_2_36_x86_64 --only-plat \
    --wheel-dir "$setup_root/dist" "$setup_root"/build/wheels/lockstep_runtime-*.whl
}

setup_packages
setup_venvs
setup_build release lockstep_python
setup_step "wheel" wheel_build
setup_step "auditwheel repair" wheel_repair
/usr/bin/python3 "$setup_root/scripts/check_wheel.py" \
  "$setup_root"/dist/lockstep_runtime-*manylinux*.whl "$@"
