#!/bin/sh
set -eu
test ! -e /etc/sysctl.d/90-fleetwright.conf
