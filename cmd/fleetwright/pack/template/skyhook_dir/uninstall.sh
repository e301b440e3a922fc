#!/bin/sh
# Takes away everything that the package put on the host.
set -eu
rm -rf /etc/NAME
