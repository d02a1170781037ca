#!/usr/bin/env bash
# Makes the wheel that runs where none of Debian's libraries are: dist/lockstep_runtime-*.whl, tagged
# manylinux_2_36_x86_64. Then installs it into a fresh environment and looks at what it loads there.
#
#   scripts/wheel.sh           build, repair, check
#
# What the programs need is put inside by auditwheel; the extension needs nothing but the system.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

wheel_build() {
  local python=$setup_root/build/venv/bin/python
  if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  fi
  rm -rf "$setup_root/build/wheels"
  CMAKE_BUILD_PARALLEL_LEVEL=$(setup_jobs) "$python" -m pip wheel --quiet --no-deps \
    --disable-pip-version-check --wheel-dir "$setup_root/build/wheels" "$setup_root"
}

wheel_repair() {
  mkdir -p "$setup_root/dist"
  PATH="$setup_root/build/venv/bin:$PATH" auditwheel repair --plat manylinux_2_36_x86_64 --only-plat \
    --wheel-dir "$setup_root/dist" "$setup_root"/build/wheels/lockstep_runtime-*.whl
}

setup_packages
setup_venvs
setup_step "wheel" wheel_build
setup_step "auditwheel repair" wheel_repair
/usr/bin/python3 "$setup_root/scripts/check_wheel.py" "$setup_root"/dist/lockstep_runtime-*manylinux*.whl
