package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

const (
	// defaultNodes is how many nodes are imagined where nothing is said.
	defaultNodes = 100
	// mostNodes keeps a typing error from filling the memory.
	mostNodes = 50_000
)

// scenario is what the flags alone say.
func (o *simulateOptions) scenario() (simulate.Scenario, error) {
	sc := simulate.Scenario{
		Start: time.Now().UTC().Truncate(time.Second), Settings: plan.Settings{Attempts: 3, StageTimeout: time.Hour},
	}
	for _, read := range []func(*simulate.Scenario) error{
		o.readFailures, o.readDurations, o.readBudget, o.readSeed, o.readStart,
	} {
		if err := read(&sc); err != nil {
			return simulate.Scenario{}, err
		}
	}
	if o.Nodes != "" && o.NodesFrom != "" {
		return simulate.Scenario{}, fmt.Errorf("--nodes and --nodes-from exclude each other; leave one out")
	}
	_, err := sizesOf(o.Nodes)
	return sc, err
}

func (o *simulateOptions) readFailures(sc *simulate.Scenario) error {
	sc.Failures = simulate.Failures{Nodes: o.FailNodes, Stage: nwv1.Stage(o.FailStage)}
	if o.FailStage != "" && !slices.Contains(simulate.FailureStages(), sc.Failures.Stage) {
		return fmt.Errorf("--fail-stage: unknown stage %q (allowed: %s)", o.FailStage, join(simulate.FailureStages()))
	}
	var err error
	if sc.Failures.Percent, err = percentOf("--fail", o.Fail); err != nil {
		return err
	}
	sc.Failures.FlakyPercent, err = percentOf("--flaky", o.Flaky)
	return err
}

func percentOf(flag, text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !percent || !(v >= 0 && v <= 100) {
		return 0, fmt.Errorf("%s: %q is not a share (allowed: 0%% to 100%%, such as 2%%)", flag, text)
	}
	return v, nil
}

func (o *simulateOptions) readDurations(sc *simulate.Scenario) error {
	sc.Durations = simulate.Durations{}
	for _, entry := range o.Durations {
		name, text, ok := strings.Cut(entry, "=")
		if !ok {
			return fmt.Errorf("--duration: %q is not STEP=DURATION, such as apply=90s", entry)
		}
		step := simulate.Step(name)
		if !slices.Contains(simulate.Steps(), step) {
			return fmt.Errorf("--duration: unknown step %q (allowed: %s)", name, join(simulate.Steps()))
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("--duration: %s: %q is not a duration (allowed: 0 and more, such as 90s, 6m or 1h30m)", name, text)
		}
		sc.Durations[step] = d
	}
	return nil
}

// defaultDurations are the defaults as they would be typed.
func defaultDurations() string {
	var out []string
	for _, step := range simulate.Steps() {
		d := simulate.DefaultDurations()[step].String()
		if strings.HasSuffix(d, "m0s") {
			d = strings.TrimSuffix(d, "0s")
		}
		out = append(out, string(step)+"="+d)
	}
	return strings.Join(out, ",")
}

func (o *simulateOptions) readBudget(sc *simulate.Scenario) error {
	if o.MaxNodes == "" {
		return nil
	}
	digits, percent := strings.CutSuffix(o.MaxNodes, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 || percent && n > 100 {
		return fmt.Errorf("--max-nodes: %q is not a number of nodes (allowed: 0 and more, or 0%% to 100%%)", o.MaxNodes)
	}
	limit := int32(n)
	budget := plan.Budget{Name: "--max-nodes", Count: &limit}
	if percent {
		budget.Count, budget.Percent = nil, &limit
	}
	sc.Budgets = []plan.Budget{budget}
	return nil
}

func (o *simulateOptions) readSeed(sc *simulate.Scenario) error {
	seed, err := strconv.ParseUint(o.Seed, 10, 64)
	if err != nil {
		return fmt.Errorf("--seed: %q is not a number (allowed: 0 and more)", o.Seed)
	}
	sc.Seed = seed
	return nil
}

func (o *simulateOptions) readStart(sc *simulate.Scenario) error {
	if o.Start == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, o.Start)
	if err != nil {
		return fmt.Errorf("--start: %q is not a time (allowed: RFC 3339, such as 2026-01-05T09:00:00Z)", o.Start)
	}
	sc.Start = at
	return nil
}

// sizesOf reads `500` or `canary=2,serving=40`.
func sizesOf(text string) (simulate.Sizes, error) {
	if text == "" {
		return simulate.Sizes{Total: defaultNodes}, nil
	}
	if !strings.Contains(text, "=") {
		n, err := countOf(text)
		return simulate.Sizes{Total: n}, err
	}
	sizes := simulate.Sizes{ByCompartment: map[string]int{}}
	total := 0
	for _, entry := range strings.Split(text, ",") {
		name, digits, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return simulate.Sizes{}, fmt.Errorf("--nodes: %q is not COMPARTMENT=COUNT, such as canary=2", entry)
		}
		n, err := countOf(digits)
		if err != nil {
			return simulate.Sizes{}, err
		}
		sizes.ByCompartment[name] += n
		total += n
	}
	if total > mostNodes {
		return simulate.Sizes{}, fmt.Errorf("--nodes: %d is too many (allowed: 1 to %d)", total, mostNodes)
	}
	return sizes, nil
}

func countOf(digits string) (int, error) {
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > mostNodes {
		return 0, fmt.Errorf("--nodes: %q is not a number of nodes (allowed: 1 to %d, or COMPARTMENT=COUNT,...)", digits, mostNodes)
	}
	return n, nil
}

func join[T ~string](words []T) string {
	var out []string
	for _, w := range words {
		out = append(out, string(w))
	}
	return strings.Join(out, ", ")
}
