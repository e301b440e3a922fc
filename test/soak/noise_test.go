package soak

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// step is one kind of disturbance; weight is how often it comes.
type step struct {
	name   string
	weight int
	do     func(s *stage)
}

// disturbances are all kinds of steps. do makes its choices from the seed and the model only.
func disturbances() []step {
	return []step{
		{"node joins", 20, (*stage).stepJoin},
		{"node is deleted", 15, (*stage).stepDelete},
		{"node is replaced under its name", 15, (*stage).stepRecreate},
		{"node reboots by itself", 15, (*stage).stepReboot},
		{"node loses power", 10, (*stage).stepPowerOff},
		{"node gets power", 25, (*stage).stepPowerOn},
		{"node is NotReady", 15, (*stage).stepNotReady},
		{"others cordon", 25, (*stage).stepCordon},
		{"others uncordon", 30, (*stage).stepUncordon},
		{"others uncordon what is ours", 10, (*stage).stepCarelessUncordon},
		{"label moves", 25, (*stage).stepMove},
		{"node is ignored or not", 10, (*stage).stepIgnore},
		{"foreign metadata", 60, (*stage).stepMark},
		{"foreign taint", 20, (*stage).stepTaint},
		{"pod comes", 80, (*stage).stepPod},
		{"protected pod comes", 25, (*stage).stepTraining},
		{"pod ends", 40, (*stage).stepPodEnds},
		{"disruption budget", 8, (*stage).stepBudget},
		{"work fails on a node", 35, (*stage).stepFault},
		{"work succeeds again on a node", 45, (*stage).stepMend},
		{"version", 14, (*stage).stepVersion},
		{"configuration", 10, (*stage).stepConfig},
		{"interrupt", 4, (*stage).stepInterrupt},
		{"second package", 5, (*stage).stepSecond},
		{"budget", 10, (*stage).stepCeiling},
		{"pause", 6, (*stage).stepPause},
		{"disable", 5, (*stage).stepDisable},
		{"retry or resume", 10, (*stage).stepVerb},
		{"NodeWright is deleted and comes back", 2, (*stage).stepRebirth},
		{"reconciler is killed", 10, (*stage).stepKill},
		{"two reconcilers overlap", 3, (*stage).stepOverlap},
		{"requests fail", 20, (*stage).stepRequests},
		{"watches break", 6, (*stage).stepWatches},
	}
}

// run makes the steps.
func (s *stage) run() {
	all := disturbances()
	total := 0
	for _, d := range all {
		total += d.weight
	}
	checked := time.Now()
	for i := range s.o.steps {
		s.random = rand.New(rand.NewPCG(s.o.seed, uint64(i)+2)) // what a step sees cannot change what later ones choose
		d := choose(all, s.random.IntN(total))
		pause := time.Duration(s.random.Int64N(int64(2 * s.o.pace)))
		s.counts[d.name]++
		d.do(s)
		s.bear()
		time.Sleep(pause)
		s.revive(i)
		if time.Since(checked) > 10*time.Second || i == s.o.steps-1 {
			s.witness.check(i)
			checked = time.Now()
		}
		if s.t.Failed() {
			s.t.Fatalf("seed %d, step %d (%s): an invariant is broken", s.o.seed, i, d.name)
		}
	}
}

// revive starts a reconciler again that ended by itself, as its Deployment would: it may, when the API server refuses what it needs
// to start. It must not panic.
func (s *stage) revive(step int) {
	if s.process.alive() {
		return
	}
	if words := s.program.lastWords(); strings.Contains(words, "panic:") || strings.Contains(words, "fatal error:") {
		s.t.Fatalf("seed %d, step %d: the reconciler crashed", s.o.seed, step)
	}
	s.ends++
	s.process = s.program.start()
}

func choose(all []step, n int) step {
	for _, d := range all {
		if n -= d.weight; n < 0 {
			return d
		}
	}
	return all[len(all)-1]
}

// running are the nodes that have power.
func (s *stage) running() []string {
	return slices.DeleteFunc(slices.Clone(s.model.nodes), func(n string) bool { return s.model.off[n] })
}
