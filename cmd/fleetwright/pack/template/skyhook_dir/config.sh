#!/bin/sh
# Puts the settings in place. SKYHOOK_DIR is the package's directory on the host; configmaps/ holds the keys of the
# NodeWright's configMap. The step runs at every change, so it has to be right when it runs again.
set -eu
mkdir -p /etc/NAME
cp "$SKYHOOK_DIR/configmaps/settings" /etc/NAME/settings.new
mv /etc/NAME/settings.new /etc/NAME/settings
