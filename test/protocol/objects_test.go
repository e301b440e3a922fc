package protocol

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

const (
	maxNodes    = 3 // names
	maxMachines = 2 * maxNodes
	maxJobs     = 16
	maxVersions = 5 // of a kind that a cache may still show, the newest included
	maxLate     = 2 // requests under way whose sender has given up
	maxLeaders  = 2
)

// table numbers values from 1, so that a state is small and two equal values are one number.
type table[V any] struct {
	ids    map[string]uint16
	values []V
}

func (t *table[V]) id(key string, value func() V) uint16 {
	if id, known := t.ids[key]; known {
		return id
	}
	if t.ids == nil {
		t.ids, t.values = map[string]uint16{}, make([]V, 1)
	}
	id := uint16(len(t.values))
	if id == 0 {
		panic("too many values: the world is too large")
	}
	t.values = append(t.values, value())
	t.ids[key] = id
	return id
}

func (t *table[V]) at(id uint16) V { return t.values[id] }

// uid is a node object: a name, which one of that name it is (0, or 1 after a re-creation), and the machine behind it.
type uid uint8

func newUID(name, incarnation, home int) uid {
	return uid(1 + name + maxNodes*incarnation + 2*maxNodes*home)
}

func (u uid) name() int        { return (int(u) - 1) % maxNodes }
func (u uid) incarnation() int { return (int(u) - 1) / maxNodes % 2 }
func (u uid) machine() int     { return u.name() + maxNodes*((int(u)-1)/(2*maxNodes)) }

func (u uid) String() string {
	s := nodeName(u.name())
	if u.incarnation() > 0 {
		s += "'"
	}
	if u.incarnation() > 0 && u.machine() < maxNodes {
		s += " (same machine)"
	}
	return s
}

func (u uid) apiUID() types.UID { return types.UID(fmt.Sprintf("%s-%d", nodeName(u.name()), u)) }

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// nodeObject is what the API server has of a node; uid 0: there is none of that name.
type nodeObject struct {
	uid      uid
	cordoned bool   // by us, with the owner mark
	record   uint16 // of table records; 0: none
}

type nodeList [maxNodes]nodeObject

type jobState uint8

const (
	pending jobState = iota
	running
	succeeded
	failed
	refused // by the agent's fence; a reader sees a failure
)

func (s jobState) ended() bool { return s >= succeeded }

// jobObject is what the API server has of a Job; name 0: none. Jobs are sorted by name.
type jobObject struct {
	name     uint16 // of table names
	spec     uint16 // of table specs
	state    jobState
	reached  uint8 // stages that succeeded
	deleting bool
	own      bool // it began while its own node object was there
}

type jobList [maxJobs]jobObject

func (l jobList) find(name uint16) (int, bool) {
	for i, j := range l {
		if j.name == name && name != 0 {
			return i, true
		}
	}
	return 0, false
}

func (l jobList) with(j jobObject) jobList {
	if i, ok := l.find(j.name); ok {
		l[i] = j
		return l
	}
	if l[maxJobs-1].name != 0 {
		panic(fmt.Sprintf("too many jobs: the world is too large: %v", l))
	}
	i := maxJobs - 1
	for ; i > 0 && (l[i-1].name == 0 || l[i-1].name > j.name); i-- {
		l[i] = l[i-1]
	}
	l[i] = j
	return l
}

func (l jobList) without(name uint16) jobList {
	i, ok := l.find(name)
	if !ok {
		return l
	}
	copy(l[i:], l[i+1:])
	l[maxJobs-1] = jobObject{}
	return l
}

// objectives is what people ask for: the NodeWright with its annotations.
type objectives struct{ generation, content, resume, retry uint8 }

// host is a machine: what the agent's fence keeps there, and which execution is at work.
type host struct {
	round  uint8  // the highest that it has seen
	done   uint8  // stages that succeeded in that round, one bit each
	holder uint16 // name of the Job that is at work; 0: none
}

// recordValue is a record and whose it is.
type recordValue struct {
	noderecord.Record
	owner uid
}

func (m *model) recordID(r noderecord.Record) uint16 {
	return m.records.id(noderecord.Encode(r), func() recordValue { return recordValue{r, m.uids[r.Node]} })
}

func (m *model) ledgerID(l fleetv1.LedgerSpec) uint16 {
	data, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return m.ledgers.id(string(data), func() fleetv1.LedgerSpec { return l })
}

func (m *model) specID(s plan.ExecutionSpec) uint16 {
	k := s.ExecutionKey
	name := fmt.Sprintf("%s-r%d-%s%s-w%d-a%d", k.NodeUID, k.Round, k.Package, k.Phase, k.Wave, k.Attempt)
	content := fmt.Sprintf("%s-b%d-o%d-%v-%s", name, s.Batch, s.Order, s.Stages, s.Definition.Version)
	return m.specs.id(content, func() jobSpec {
		return jobSpec{ExecutionSpec: s, name: name, uid: m.uids[s.NodeUID]}
	})
}

func (m *model) nameID(name string) uint16 { return m.names.id(name) }

// jobSpec is the content of a Job. Its name is derived from the key alone, as the real one's is.
type jobSpec struct {
	plan.ExecutionSpec
	name string
	uid  uid
}

func (j jobSpec) String() string {
	return fmt.Sprintf("job %s of %s, round %d, attempt %d", j.Phase, j.uid, j.Round, j.Attempt)
}

// visible is the record as a reader sees it: one of another node object is none.
func (m *model) visible(n nodeObject) (noderecord.Record, bool) {
	if n.uid == 0 || n.record == 0 {
		return noderecord.Record{}, false
	}
	r := &m.records.values[n.record]
	if r.owner != n.uid {
		return noderecord.Record{}, false
	}
	return r.Record, true
}
