package agent

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Outcome is how an execution ended.
type Outcome string

const (
	// Succeeded: the stage or interrupt is complete.
	Succeeded Outcome = "succeeded"
	// Failed: a step, a check or the package itself failed.
	Failed Outcome = "failed"
	// Refused: the execution is not for this machine, or its round is over. Nothing was changed.
	Refused Outcome = "refused"
	// Unsafe: an interrupt was not begun, because the node is not as NodeCheck wants it. Nothing was changed.
	Unsafe Outcome = "unsafe"
)

// Result is what the container's termination message says, as one line of JSON.
type Result struct {
	// Stage is the mode that ran.
	Stage   Mode    `json:"stage"`
	Outcome Outcome `json:"outcome"`
	// Step that decided the outcome; empty if no step did.
	Step string `json:"step,omitempty"`
	// ExitCode of the step; 0 if no step decided.
	ExitCode int `json:"exitCode"`
	// Message is one sentence for people; empty on success.
	Message string `json:"message,omitempty"`
	// Lines are the last lines of the step's output.
	Lines []string `json:"lines,omitempty"`
	// Seconds the execution took.
	Seconds float64 `json:"seconds"`
	// Stored says that the stage was completed earlier in this round and nothing ran now.
	Stored bool `json:"stored,omitempty"`
}

// MaxMessage is the longest termination message that the kubelet keeps of one container (4096 bytes).
const MaxMessage = 4096

// TerminationMessage renders the result within MaxMessage: lines are dropped from the front, then the message is cut.
func (r Result) TerminationMessage() []byte {
	for {
		data, err := json.Marshal(r)
		if err != nil {
			data = fmt.Appendf(nil, `{"stage":%q,"outcome":%q}`, r.Stage, r.Outcome)
		}
		if len(data) <= MaxMessage {
			return data
		}
		if len(r.Lines) > 0 {
			r.Lines = r.Lines[1:]
			continue
		}
		r.Message = cut(r.Message, len(r.Message)/2)
	}
}

// cut shortens a text to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
