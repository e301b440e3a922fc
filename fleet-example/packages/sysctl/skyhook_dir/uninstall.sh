#!/bin/sh
# Takes the settings away. The kernel keeps its values until the next boot: give the package a reboot interrupt if that matters.
set -eu
rm -f /etc/sysctl.d/90-fleetwright.conf
