package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// HookServer serves Webhooks on a listener, and runs their waker. It implements manager.Runnable, and runs in every process.
type HookServer struct {
	// Listener takes connections; it is closed at the end. Required.
	Listener net.Listener
	// Webhooks answers. Required.
	Webhooks *Webhooks
	// Waker is run along with it, and drained after the last answer. Required.
	Waker *HookWaker
	// HeaderTimeout is how long a sender may take for its headers, ReadTimeout for the whole request. Default 5s and 10s.
	HeaderTimeout, ReadTimeout time.Duration
	// Connections is how many are open at once, Requests how many are worked on. Default 128 and 32.
	Connections, Requests int
}

const (
	hookIdleTimeout  = 30 * time.Second
	hookWriteTimeout = 20 * time.Second
	hookDrain        = 5 * time.Second
	maxHookHeader    = 16 << 10
)

// Start serves until ctx ends, lets the answers under way finish, and has written what they wished before it returns.
func (s *HookServer) Start(ctx context.Context) error {
	server := &http.Server{
		Handler:           bounded(s.Webhooks, defaulted(s.Requests, 32)),
		ReadHeaderTimeout: defaulted(s.HeaderTimeout, 5*time.Second), ReadTimeout: defaulted(s.ReadTimeout, 10*time.Second),
		WriteTimeout: hookWriteTimeout, IdleTimeout: hookIdleTimeout, MaxHeaderBytes: maxHookHeader,
	}
	waking, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { s.Waker.Run(waking) })
	served := make(chan error, 1)
	go func() { served <- server.Serve(limitListener(s.Listener, defaulted(s.Connections, 128))) }()
	var err error
	select {
	case <-ctx.Done():
		err = shutdown(ctx, server)
	case err = <-served:
	}
	stop()
	work.Wait()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return nil
}

// NeedLeaderElection: every process answers.
func (s *HookServer) NeedLeaderElection() bool { return false }

// shutdown cuts off who is not done in time.
func shutdown(ctx context.Context, server *http.Server) error {
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookDrain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return server.Close()
	}
	return nil
}

func defaulted[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}

// bounded works on so many requests at once, and turns others away before their bodies are read.
func bounded(webhooks *Webhooks, most int) http.Handler {
	places := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			webhooks.ServeHTTP(w, r)
		default:
			w.Header().Set("Connection", "close")
			webhooks.reply(w, hookAnswer{result: wake.Limited, text: "too many requests are being worked on"})
		}
	})
}

// limitListener accepts a connection only when fewer than most are open. The others wait in the kernel.
func limitListener(l net.Listener, most int) net.Listener {
	return &limitedListener{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
