package plan_test

// What is left to do on a node, and what the end of an execution changes there: the part of the reference model that knows
// one package. The package has a service interrupt (r.interrupt) or none, and is uninstalled when it is removed or lowered
// (r.uninstall) or not.

// phases are what is left to do on a node, in order; each is one execution.
func (r *reference) phases(n *refNode) []string {
	h, want := n.host, r.content
	lowered := h.removing || h.uninstalled || h.version > want.version
	switch {
	case h.version != 0 && r.uninstall && lowered:
		return r.uninstallPhases(h, want)
	case want.version == 0:
		return nil
	case h.version != want.version || !h.applied:
		return r.interrupted("install")
	case (h.conf != want.conf || !h.configured) && h.due:
		return r.interrupted("config")
	case h.conf != want.conf || !h.configured:
		return then("config", h.post)
	case h.due:
		return []string{"interrupt", "post"}
	}
	return then("", h.post)
}

// then is a phase, and post-interrupt where that is due.
func then(phase string, post bool) []string {
	var out []string
	if phase != "" {
		out = append(out, phase)
	}
	if post {
		out = append(out, "post")
	}
	return out
}

// interrupted is a phase with the interrupt that follows it.
func (r *reference) interrupted(phase string) []string {
	if !r.interrupt {
		return []string{phase}
	}
	return []string{phase, "interrupt", "post"}
}

func (r *reference) uninstallPhases(h refHost, want refContent) []string {
	var out []string
	if !h.uninstalled {
		out = append(out, "uninstall")
	}
	if r.interrupt {
		out = append(out, "interrupt")
	}
	if want.version != 0 {
		out = append(out, r.interrupted("install")...)
	}
	return out
}

// ran ends the execution that runs on a node.
func (r *reference) ran(n *refNode, ok bool) {
	phase := n.running
	n.running, n.fresh, n.failed, n.turn.lost = "", true, "", !ok
	if !ok {
		n.failed = phase
	}
	h := &n.host
	switch {
	case phase == "uninstall" && !ok:
		h.removing = true
	case phase == "uninstall" && r.interrupt:
		h.uninstalled = true
	case phase == "uninstall", phase == "interrupt" && ok && h.uninstalled:
		*h = refHost{}
	case phase == "install":
		*h = refHost{refContent: n.wanted, applied: ok, configured: ok, due: r.interrupt}
	case phase == "config":
		h.conf, h.configured = n.wanted.conf, ok
	case phase == "interrupt" && ok:
		h.due, h.post = false, true
	case phase == "post" && ok:
		h.post = false
	}
}
