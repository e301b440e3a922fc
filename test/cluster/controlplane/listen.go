package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// listen binds a loopback port. The kernel chooses it at the first start; later starts on the same directory take it
// again, because clients of a restarted control plane still hold the old address.
func listen(dir string) (net.Listener, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	file := filepath.Join(dir, "port")
	old, err := os.ReadFile(file)
	if err == nil {
		return listenAgain("127.0.0.1:" + strings.TrimSpace(string(old)))
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the last start's port: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("choose a port: %w", err)
	}
	port := fmt.Sprintln(l.Addr().(*net.TCPAddr).Port)
	if err := os.WriteFile(file, []byte(port), 0o600); err != nil {
		return nil, fmt.Errorf("keep the port: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// listenAgain is patient: a client's outgoing connection may hold the port for a moment.
func listenAgain(address string) (net.Listener, error) {
	var l net.Listener
	var err error
	for range 50 {
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("take the last start's port again (another process has it? a directory serves one control plane): %w", err)
}
