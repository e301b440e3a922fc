package noderecord

import (
	"fmt"
	"maps"
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// check refuses what no version of this program writes: a record by hand, or a damaged one. Who reads a record counts with its
// numbers and takes the first package of its interrupt.
func (r Record) check() error {
	for _, n := range []number{
		{"round", r.Round}, {"batch", int64(r.Batch)}, {"order", int64(r.Order)}, {"waves", int64(r.Waves)}, {"reruns", int64(r.Reruns)},
	} {
		if err := n.check(); err != nil {
			return err
		}
	}
	switch r.Outcome {
	case Open, Succeeded, Failed, Released:
	default:
		return fmt.Errorf("outcome is %q; allowed are %q, %q, %q, and none for a turn that is under way", r.Outcome, Succeeded, Failed, Released)
	}
	if err := r.Interrupt.check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Packages)) {
		if err := r.Packages[name].check(); err != nil {
			return fmt.Errorf("packages.%s.%w", name, err)
		}
	}
	return nil
}

// number is a field that counts something.
type number struct {
	field string
	value int64
}

func (n number) check() error {
	if n.value < 0 {
		return fmt.Errorf("%s is %d; it counts from 0", n.field, n.value)
	}
	return nil
}

func (i *Interrupt) check() error {
	if i == nil {
		return nil
	}
	for _, n := range []number{
		{"interrupt.wave", int64(i.Wave)}, {"interrupt.attempt", int64(i.Attempt)}, {"interrupt.failures", int64(i.Failures)},
	} {
		if err := n.check(); err != nil {
			return err
		}
	}
	switch i.Type {
	case nwv1.InterruptReboot, nwv1.InterruptService, nwv1.InterruptRestartAllServices, nwv1.InterruptNoop:
	default:
		return fmt.Errorf("interrupt.type is %q, which is none", i.Type)
	}
	if len(i.Packages) == 0 {
		return fmt.Errorf("interrupt.packages is empty; an interrupt is for at least one package")
	}
	return i.Setback.check("interrupt.")
}

func (s *Setback) check(of string) error {
	if s == nil {
		return nil
	}
	return number{of + "setback.count", int64(s.Count)}.check()
}

func (p Package) check() error {
	for _, n := range []number{{"attempt", int64(p.Attempt)}, {"failures", int64(p.Failures)}} {
		if err := n.check(); err != nil {
			return err
		}
	}
	return p.Setback.check("")
}
