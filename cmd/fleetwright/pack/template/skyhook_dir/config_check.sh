#!/bin/sh
# Proves that what was asked for is what the host has now. A check only looks.
set -eu
cmp "$SKYHOOK_DIR/configmaps/settings" /etc/NAME/settings
