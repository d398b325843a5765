#!/usr/bin/env bash
# Set up a fresh machine: Debian packages where they are missing, and Python environments from hashed locks.
#   tools/setup.sh packages NAME...   the Debian packages that bring these programs; PROGRAM:PACKAGE
#                                     where the package is named otherwise
#   tools/setup.sh venv DIR LOCK      a Python environment from a hashed lock
set -euo pipefail
cd "$(dirname "$0")/.."

# HAProxy and Prometheus may stand where the PATH of a common user does not look.
export PATH="$PATH:/usr/sbin:/usr/local/sbin"

install() {
  if ! command -v apt-get >/dev/null; then
    echo "This is no Debian machine: install $* (HAProxy 2.6 and Prometheus 2.42 or later)" \
      "and run make again." >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "Missing Debian packages: run 'sudo apt-get install --no-install-recommends $*'" \
      "and run make again." >&2
    exit 1
  fi
  echo "Installing Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

packages() {
  local missing=() name
  for name in "$@"; do
    command -v "${name%%:*}" >/dev/null || missing+=("${name##*:}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    install "${missing[@]}"
  fi
}

venv() {
  local python=${PYTHON:-python3}
  if ! command -v "$python" >/dev/null; then
    install python3 python3-venv
  fi
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$("$python" --version) is too old: Python 3.11 or later is needed; name one with" \
      "PYTHON=/path/to/python3.11 make ..." >&2
    exit 1
  fi
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    install python3-venv
  fi
  local env=$1 lock=$2
  echo "Building $env from $lock"
  "$python" -m venv "$env"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-deps --require-hashes -r "$lock"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-deps --no-build-isolation --editable .
  touch "$env/.ready"
}

"$@"
