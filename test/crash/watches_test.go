package crash

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// watchFaults hold watch streams back, or break them. It is safe for concurrent use.
type watchFaults struct {
	// lag of a resource's events; nil: none.
	lag func(resource string) time.Duration
	// gone is the share of new watches that are answered by 410, so that everything is listed anew.
	gone float64

	mu      sync.Mutex
	random  *rand.Rand
	streams map[*stream]bool
	cuts    int
	lists   int
}

func newWatchFaults(seed uint64) *watchFaults {
	return &watchFaults{random: rand.New(rand.NewPCG(seed, 1)), streams: map[*stream]bool{}}
}

// open begins a watch, or refuses it.
func (w *watchFaults) open(next http.RoundTripper, r *http.Request, e cluster.AuditEvent) (*http.Response, error) {
	if w.refuses() {
		return answer(r, http.StatusGone, metav1.StatusReasonExpired), nil
	}
	response, err := next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	var lag time.Duration
	if w.lag != nil {
		lag = w.lag(e.Resource)
	}
	s := &stream{body: response.Body, chunks: make(chan chunk, 1<<14), closed: make(chan struct{})}
	go s.read()
	s.lag = lag
	w.mu.Lock()
	w.streams[s] = true
	w.mu.Unlock()
	s.forget = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.streams, s)
	}
	response.Body = s
	return response, nil
}

func (w *watchFaults) refuses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.random.Float64() >= w.gone {
		return false
	}
	w.lists++
	return true
}

// cut breaks about a half of the watches that are open, and loses what they hold back.
func (w *watchFaults) cut() {
	w.mu.Lock()
	var chosen []*stream
	for s := range w.streams {
		if w.random.IntN(2) == 0 {
			chosen = append(chosen, s)
		}
	}
	w.cuts += len(chosen)
	w.mu.Unlock()
	for _, s := range chosen {
		_ = s.Close()
	}
}

// stream is a response's body that arrives late.
type stream struct {
	body   io.ReadCloser
	lag    time.Duration
	chunks chan chunk
	rest   []byte
	once   sync.Once
	closed chan struct{}
	forget func()
}

type chunk struct {
	data []byte
	at   time.Time
	err  error
}

func (s *stream) read() {
	for {
		buffer := make([]byte, 1<<15)
		n, err := s.body.Read(buffer)
		if n > 0 && !s.pass(chunk{data: buffer[:n], at: time.Now()}) {
			return
		}
		if err != nil {
			s.pass(chunk{err: err})
			return
		}
	}
}

func (s *stream) pass(c chunk) bool {
	select {
	case s.chunks <- c:
		return true
	case <-s.closed:
		return false
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case <-s.closed:
			return 0, io.ErrUnexpectedEOF
		case c := <-s.chunks:
			if c.err != nil {
				return 0, c.err
			}
			if !s.await(time.Until(c.at.Add(s.lag))) {
				return 0, io.ErrUnexpectedEOF
			}
			s.rest = c.data
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) await(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closed:
		return false
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.forget()
	return s.body.Close()
}
