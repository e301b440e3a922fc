package agent

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is where a line without end is broken in two.
	maxLine = 8192
	// tailLines and tailLine bound what a result quotes: ten lines of 300 bytes.
	tailLines = 10
	tailLine  = 300
)

// console prefixes what steps write and passes it on line by line, and keeps the last lines. Its two streams may write at once.
type console struct {
	mu   sync.Mutex
	out  io.Writer
	now  func() time.Time
	step string
	tail []string
}

// stream is the writer for one stream of a step; the raw bytes also go to file, unless that is nil.
func (c *console) stream(label string, file io.Writer) *stream {
	return &stream{console: c, label: label, file: file}
}

func (c *console) line(label, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "[%s] %s %s: %s\n", label, c.now().UTC().Format(time.RFC3339), c.step, text)
	c.tail = append(c.tail, cut(strings.ToValidUTF8(text, "\uFFFD"), tailLine))
	c.tail = c.tail[max(0, len(c.tail)-tailLines):]
}

type stream struct {
	console *console
	label   string
	file    io.Writer
	rest    []byte
}

// Write never fails: a full disk of the host must not end a step whose output nobody reads.
func (s *stream) Write(p []byte) (int, error) {
	if s.file != nil {
		_, _ = s.file.Write(p)
	}
	s.rest = append(s.rest, p...)
	for {
		end := bytes.IndexByte(s.rest, '\n')
		if end < 0 && len(s.rest) < maxLine {
			return len(p), nil
		}
		if end < 0 || end > maxLine {
			s.console.line(s.label, string(s.rest[:maxLine]))
			s.rest = s.rest[maxLine:]
			continue
		}
		s.console.line(s.label, strings.TrimSuffix(string(s.rest[:end]), "\r"))
		s.rest = s.rest[end+1:]
	}
}

// flush ends a last line that has no newline.
func (s *stream) flush() {
	if len(s.rest) > 0 {
		s.console.line(s.label, string(s.rest))
		s.rest = nil
	}
}
