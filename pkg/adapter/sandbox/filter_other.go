//go:build !linux || !(amd64 || arm64)

package sandbox

func filter() error { return ErrNotConfined }
