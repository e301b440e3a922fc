package report

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

func packagesBlock(p preview.Plan) block {
	b := block{heading: lineOf("Packages"), header: []string{"NodeWright", "package", "old → new", "what differs", "on a node"}}
	for _, nw := range p.NodeWrights {
		for _, pkg := range nw.Packages {
			if starts(pkg) {
				b.rows = append(b.rows, []line{lineOf(nameOf(nw.Name)), lineOf(nameOf(pkg.Name)), versionsOf(pkg), differencesOf(pkg), stagesText(pkg)})
			}
		}
	}
	return b
}

func versionsOf(p preview.Package) line {
	switch {
	case p.Old == nil:
		return lineOf("new: ", nameOf(p.New.Version))
	case p.New == nil:
		return lineOf(nameOf(p.Old.Version), " → removed")
	case p.Old.Version == p.New.Version:
		return lineOf(nameOf(p.New.Version), " (the same)")
	}
	return lineOf(nameOf(p.Old.Version), " → ", nameOf(p.New.Version))
}

func differencesOf(p preview.Package) line {
	var parts []line
	if p.Old != nil && p.New != nil {
		if p.Old.Image != p.New.Image {
			parts = append(parts, lineOf("image ", nameOf(p.Old.Image), " → ", nameOf(p.New.Image)))
		}
		if p.Old.Digest != p.New.Digest {
			parts = append(parts, lineOf("digest ", digestText(p.Old.Digest), " → ", digestText(p.New.Digest)))
		}
	}
	parts = append(parts, keysText("env", p.Env)...)
	if p.EnvOrder {
		parts = append(parts, lineOf("order of env"))
	}
	return joined(append(parts, keysText("configMap", p.ConfigMap)...), "; ")
}

func digestText(d string) any {
	if d == "" {
		return "none"
	}
	const shown = len("sha256:") + 12
	return nameOf(d[:min(shown, len(d))])
}

// keysText names keys. Their values are not known here.
func keysText(what string, k preview.Keys) []line {
	var out []line
	for _, group := range []struct {
		verb string
		keys []string
	}{{"added", k.Added}, {"changed", k.Changed}, {"removed", k.Removed}} {
		if len(group.keys) > 0 {
			out = append(out, lineOf(what+" "+group.verb+": ", namesOf(group.keys, len(group.keys))))
		}
	}
	return out
}

func joined(parts []line, separator string) line {
	var out line
	for i, p := range parts {
		if i > 0 {
			out = append(out, phrase{text: separator})
		}
		out = append(out, p...)
	}
	return out
}

// stagesText is what happens on a node that is complete at the old state.
func stagesText(p preview.Package) line {
	words := append([]string(nil), p.Stages...)
	out := lineOf(strings.Join(words, ", "))
	switch {
	case len(words) == 0 && p.Interrupt == "" && p.Change == preview.Removed:
		return lineOf("forgotten, files stay")
	case len(words) == 0 && p.Interrupt == "":
		return lineOf("nothing")
	case p.Interrupt == "":
		out = append(out, lineOf("; no interrupt")...)
	case len(p.Services) > 0:
		out = append(out, lineOf(", **restart** of ", namesOf(p.Services, len(p.Services)))...)
	default:
		out = append(out, lineOf(", **"+p.Interrupt+"**")...)
	}
	if p.Checked {
		out = append(out, lineOf("; nothing where its checks find the wanted state")...)
	}
	return out
}

func effectsBlock(p preview.Plan) block {
	b := block{heading: lineOf("Nodes"), header: []string{
		"NodeWright", "compartment", "nodes", "reboot", "service restart", "drain only", "no interrupt", "uninstall", "which",
	}}
	anyway := 0
	for _, nw := range p.NodeWrights {
		anyway += nw.Anyway
		for _, e := range nw.Effects {
			b.rows = append(b.rows, []line{
				lineOf(nameOf(nw.Name)), lineOf(nameOf(e.Compartment)), lineOf(e.Nodes), figure(e.Reboot), figure(e.ServiceRestart), figure(e.DrainOnly),
				figure(e.NoInterrupt), figure(e.Uninstall), namesOf(e.First, e.Nodes),
			})
		}
	}
	if anyway > 0 {
		b.intro = []line{lineOf(fmt.Sprintf("Not complete without this change either: %s (counted for each NodeWright).", plural(anyway, "node")))}
	}
	return b
}

func figure(n int) line {
	if n == 0 {
		return lineOf("–")
	}
	return lineOf(n)
}

func blocksBlock(p preview.Plan) block {
	b := block{heading: lineOf("In the way now"), header: []string{"NodeWright", "reason", "nodes", "which", "for example"}}
	for _, one := range p.Blocks {
		count := lineOf(one.Count)
		if one.Pods > 0 {
			count = lineOf(one.Count, " (", plural(one.Pods, "pod"), ")")
		}
		b.rows = append(b.rows, []line{
			lineOf(nameOf(one.NodeWright)), lineOf(nameOf(one.Code)), count, namesOf(one.First, one.Count), lineOf(quoteOf(one.Message)),
		})
	}
	if len(b.rows) > 0 && !p.Nodes.PodsKnown {
		b.intro = []line{lineOf("Pods are not known: protected pods and PodDisruptionBudgets are not among these.")}
	}
	return b
}

func settingsBlock(p preview.Plan) block {
	b := block{heading: lineOf("Objects and settings"), header: []string{"object", "what", "old", "new"}}
	add := func(kind, name string, change preview.Change, settings []preview.Setting) {
		object := lineOf(nameOf(kind + "/" + name))
		if change != preview.Changed {
			b.rows = append(b.rows, []line{object, lineOf(string(change)), nil, nil})
			return
		}
		for _, s := range settings {
			what := lineOf(nameOf(s.Field))
			if s.Change != preview.Changed {
				what = append(what, lineOf(" "+string(s.Change))...)
			}
			b.rows = append(b.rows, []line{object, what, lineOf(nameOf(s.Old)), lineOf(nameOf(s.New))})
		}
	}
	for _, nw := range p.NodeWrights {
		add("NodeWright", nw.Name, nw.Change, nw.Settings)
	}
	for _, o := range p.Others {
		add(o.Kind, o.Name, o.Change, o.Settings)
	}
	return b
}

func warningsBlock(p preview.Plan) block {
	b := block{heading: lineOf("Warnings")}
	for _, w := range p.Warnings {
		b.bullets = append(b.bullets, warningText(w))
	}
	return b
}

// warningText is one sentence for each code.
func warningText(w preview.Warning) line {
	nw, pkg, compartment := nameOf(w.NodeWright), nameOf(w.Package), nameOf(w.Compartment)
	switch w.Code {
	case preview.NoFailureThreshold:
		return lineOf(nw, ", compartment ", compartment, ": nodes are interrupted and no failureThreshold halts the rollout when they fail.")
	case preview.FullBudget:
		return lineOf(nw, ", compartment ", compartment, ": the budget is 100 %: all its nodes may be out of service at once.")
	case preview.ZeroBudget:
		return lineOf(nw, ", compartment ", compartment, ": the budget is 0, which admits no node.")
	case preview.NothingSelected:
		return lineOf(nw, ": its nodeSelectors match none of the nodes.")
	case preview.NoDigest:
		return lineOf(nw, ", package ", pkg, ": version ", nameOf(w.Version), " has no digest; whoever can move the tag changes what runs on the hosts.")
	case preview.RemovedWithoutUninstall:
		return lineOf(nw, ", package ", pkg, ": removed without uninstall.enabled; what version ", nameOf(w.Version), " left on the hosts stays.")
	case preview.DowngradeWithoutUninstall:
		return lineOf(nw, ", package ", pkg, ": a lower version without uninstall.enabled; it is put over version ", nameOf(w.Version), ".")
	case preview.Uninstalls:
		return lineOf(nw, ", package ", pkg, ": version ", nameOf(w.Version), " is uninstalled from the hosts.")
	case preview.SameVersion:
		return lineOf(nw, ", package ", pkg, ": the content of version ", nameOf(w.Version), " differs and its number does not; it is applied again.")
	case preview.NodesLeave:
		return lineOf(nw, ": ", plural(w.Count, "node"), " not selected any more; what is on them stays.")
	case preview.OutOfScope:
		return lineOf(nw, ": it wants what the scope of the Fleet that delivers it does not allow; nothing of it starts.")
	case preview.CompartmentRemoved:
		return lineOf("DeploymentPolicy ", nameOf(w.Policy), ": compartment ", compartment, " is removed; its nodes fall under another one.")
	}
	return lineOf(string(w.Code), ": ", nw)
}

func inertBlock(p preview.Plan) block {
	b := block{heading: lineOf("What will not happen")}
	for _, i := range p.Inert {
		b.bullets = append(b.bullets, inertText(i))
	}
	return b
}

func inertText(i preview.Inert) line {
	switch {
	case i.Kind == "":
		return lineOf("No effective change: the objects that are built are the same, though ", plural(len(i.Fields), "file"), " differ: ", namesOf(i.Fields, len(i.Fields)), ".")
	case i.Package != "":
		return lineOf(nameOf(i.Name), ", package ", nameOf(i.Package), ": a change of ", namesOf(i.Fields, len(i.Fields)), " holds for what comes next; nothing runs for it.")
	}
	return lineOf(i.Kind+" ", nameOf(i.Name), ": a change of ", namesOf(i.Fields, len(i.Fields)), " takes effect at once on what is under way; it starts nothing, and no complete node is cordoned for it.")
}

// becauseOf words the reasons for which a rollout does not end.
func becauseOf(reasons []preview.Block) line {
	var parts []line
	for _, r := range reasons {
		if r.Code != string(plan.Complete) {
			parts = append(parts, lineOf(nameOf(r.Code), " ", plural(r.Count, "node")))
		}
	}
	return joined(parts, ", ")
}
