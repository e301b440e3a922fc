package protocol

// state is everything that can differ between two moments of a world. It is comparable: equal states are one.
type state struct {
	// The API server's objects. A history holds the versions that some cache may still show; the last one is the truth.
	nodes, jobs, wishes history
	ledger              uint16
	// owner is the leader, from 1, whose epoch the ledger carries.
	owner   uint8
	hosts   [maxMachines]host
	leaders [maxLeaders]leader
	late    [maxLate]request
	left    budget
}

// budget is how many disturbances of each kind are still to come.
type budget struct{ changes, deletions, failures, late, leads, resumes, retries uint8 }

// history is a run of versions of all objects of one kind, oldest first.
type history struct {
	versions [maxVersions]uint16
	n        uint8
}

func (h history) now() uint16 { return h.versions[h.n-1] }

type mode uint8

const (
	down   mode = iota // no process, or one that does not lead
	raised             // the epoch is raised, the caches are not yet known to be fresh
	idle               // between two passes
	acting             // carrying out a plan
)

// leader is the memory of one process.
type leader struct {
	mode mode
	// lost says that the ledger has to be read again.
	lost bool
	// unsure says that a write of the ledger was not answered and none has succeeded since: each pass reads it again.
	unsure bool
	// current says that the version of the ledger in memory is the newest.
	current bool
	// after says that the ledger is still to be written when everything else is done (only with a rule removed).
	after  bool
	ledger uint16
	// seen are the oldest versions of nodes, Jobs and NodeWright that a view may show, as indexes of the histories.
	seen [3]uint8
	// met are the nodes of the last view, by which the process notices that one has vanished.
	met  [maxNodes]uid
	plan uint16
	// next is the next step of the plan for each node; over when there is none.
	next [maxNodes]uint8
}

const over = 255

// request is a write whose sender got no answer and that may still take effect.
type request struct {
	kind  requestKind
	valid bool // for a write of the ledger: nobody has written it since
	plan  uint16
	node  uint8
	step  uint8
}

type requestKind uint8

const (
	noRequest requestKind = iota
	lateCommit
	lateStep
)

func (s *state) histories() [3]*history { return [3]*history{&s.nodes, &s.jobs, &s.wishes} }

// write appends a version of a kind.
func (m *model) write(s *state, kind int, version uint16) {
	h := s.histories()[kind]
	if h.now() == version {
		return
	}
	if int(h.n) > m.world.lag { // no cache is further behind
		copy(h.versions[:], h.versions[1:h.n])
		h.n--
		for i := range s.leaders {
			if s.leaders[i].seen[kind] > 0 {
				s.leaders[i].seen[kind]--
			}
		}
	}
	h.versions[h.n] = version
	h.n++
}

// tidied forgets what no behaviour depends on, so that states that differ in nothing else are one.
func (m *model) tidied(s state) state {
	for i := range s.leaders {
		l := &s.leaders[i]
		if l.mode == acting && !l.busy() && !l.after {
			l.mode, l.plan, l.next = idle, 0, [maxNodes]uint8{}
		}
		if l.mode == down && !m.world.broken.noList {
			*l = leader{}
		}
		l.unsure = l.unsure && (!l.current || s.commitUnderWay())
		if l.lost {
			l.ledger, l.current = 0, false
		}
	}
	if m.world.leaders == 1 {
		s.owner = 1
	}
	for kind, h := range s.histories() {
		oldest := h.n - 1
		for i := range m.world.leaders {
			if l := s.leaders[i]; l.mode > raised || m.world.broken.noList {
				oldest = min(oldest, l.seen[kind])
			}
		}
		s.forget(kind, oldest)
	}
	return s
}

// forget drops the oldest versions of a kind.
func (s *state) forget(kind int, oldest uint8) {
	h := s.histories()[kind]
	var kept history
	kept.n = uint8(copy(kept.versions[:], h.versions[oldest:h.n]))
	*h = kept
	for i := range s.leaders {
		seen := &s.leaders[i].seen[kind]
		*seen -= min(*seen, oldest)
	}
}

func (s *state) commitUnderWay() bool {
	return s.late[0].kind == lateCommit || s.late[1].kind == lateCommit
}

func (l leader) busy() bool {
	for _, next := range l.next {
		if next != over {
			return true
		}
	}
	return false
}

// swap writes the ledger for a leader (from 0; -1: for one that does not wait for the answer).
func (s *state) swap(by int, ledger uint16) {
	s.ledger = ledger
	for i := range s.leaders {
		s.leaders[i].current = false
	}
	for i := range s.late {
		s.late[i].valid = false
	}
	if by >= 0 {
		l := &s.leaders[by]
		l.ledger, l.current, l.lost, l.unsure = ledger, true, false, false
	}
}

func (m *model) nodesOf(s *state) nodeList { return m.nodeLists.at(s.nodes.now()) }
func (m *model) jobsOf(s *state) jobList   { return m.jobLists.at(s.jobs.now()) }
func (m *model) wishOf(s *state) objectives {
	return m.wishList.at(s.wishes.now())
}

func (m *model) putNodes(s *state, l nodeList) { m.write(s, 0, m.nodeLists.id(l)) }
func (m *model) putJobs(s *state, l jobList)   { m.write(s, 1, m.jobLists.id(l)) }
func (m *model) putWish(s *state, o objectives) {
	m.write(s, 2, m.wishList.id(o))
}

// values numbers comparable values from 1.
type values[V comparable] struct {
	ids  map[V]uint16
	list []V
}

func (t *values[V]) id(v V) uint16 {
	if id, known := t.ids[v]; known {
		return id
	}
	if t.ids == nil {
		t.ids, t.list = map[V]uint16{}, make([]V, 1)
	}
	if len(t.list) > 65535 {
		panic("too many values: the world is too large")
	}
	id := uint16(len(t.list))
	t.list = append(t.list, v)
	t.ids[v] = id
	return id
}

func (t *values[V]) at(id uint16) V { return t.list[id] }
