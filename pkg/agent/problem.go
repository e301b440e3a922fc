package agent

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong, or odd, in config.json.
type Problem struct {
	// Line counts from 1; 0 where no line is to blame.
	Line int
	// Field as a path, for example modes.apply[0].path; empty where the whole text is meant.
	Field string
	// Text says what is wrong and what is allowed.
	Text string
}

// String is `line 3: modes.apply[0].path: is missing`, as far as the parts are known.
func (p Problem) String() string {
	out := p.Text
	if p.Field != "" {
		out = p.Field + ": " + out
	}
	if p.Line > 0 {
		out = fmt.Sprintf("line %d: %s", p.Line, out)
	}
	return out
}

// ConfigError is everything that is wrong in config.json, so that a package's author sees all of it at once.
type ConfigError struct{ Problems []Problem }

func (e *ConfigError) Error() string {
	texts := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return configFile + ": " + strings.Join(texts, "; ")
}

// problems collects what is wrong.
type problems struct{ list []Problem }

func (p *problems) add(line int, field, text string) {
	p.list = append(p.list, Problem{line, field, text})
}

// err is nil if nothing was found.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	return &ConfigError{p.list}
}
