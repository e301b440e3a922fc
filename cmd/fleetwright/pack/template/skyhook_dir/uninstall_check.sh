#!/bin/sh
set -eu
test ! -e /etc/NAME
