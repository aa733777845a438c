#!/bin/sh
# Installs the system packages that tests with real components need, where we may (Debian or Ubuntu, as root).
set -eu
missing=""
command -v curl >/dev/null 2>&1 || missing="$missing curl"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
command -v prometheus-alertmanager >/dev/null 2>&1 || missing="$missing prometheus-alertmanager"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium fonts-noto-cjk"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
else
    echo "tests with real components want:$missing (install them, or those tests say that they are missing)"
fi
