#!/bin/sh
# Nothing to do: the kernel was started anew. The check is what counts.
exit 0
