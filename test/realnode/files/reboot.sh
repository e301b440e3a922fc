#!/bin/sh
# Asks PID 1 for a reboot, as the oldest init did.
echo reboot >>/var/log/reboot.log
echo reboot >/run/initctl
