package git

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// session is one conversation with a server: first the refs, then at most one pack.
type session interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	io.Closer
}

// remote is one server's repository during one attempt.
type remote struct {
	source       Source
	endpoint     endpoint
	name         string
	meter        *meter
	hostKeyTypes []string
	doing        atomic.Value // string: what is being done, for errors
	// certificateAsked says that the server asked for a client certificate, and has not answered a request since.
	certificateAsked atomic.Bool
}

func newRemote(source Source, e endpoint) *remote {
	announceMultiACK()
	if source.spent == nil {
		source.spent = newBudget(source.Limits)
	}
	r := &remote{source: source, endpoint: e, name: e.name(), meter: &source.spent.meter}
	r.enter("connecting")
	return r
}

// stageFetch is what takes long where a repository is large.
const stageFetch = "fetching the commit"

func (r *remote) enter(stage string) { r.doing.Store(stage) }

func (r *remote) stage() string { return r.doing.Load().(string) }

func (r *remote) open(ctx context.Context) (session, error) {
	if r.endpoint.scheme == "ssh" {
		return r.openSSH(ctx)
	}
	return r.openHTTP()
}

var multiACK sync.Once

// announceMultiACK changes a setting of go-git that is global to the process. By default go-git hides multi_ack, and Azure
// DevOps answers no client that does not announce it. Announcing is safe here: a fetch without "have" lines, the only kind
// that this package makes, is never answered with the acknowledgements that go-git cannot read.
func announceMultiACK() {
	multiACK.Do(func() { transport.UnsupportedCapabilities = []capability.Capability{capability.ThinPack} })
}

// budget is what is left of the limits, for a repository and its submodules together.
type budget struct {
	meter    meter
	unpacked int64
}

func newBudget(limits Limits) *budget {
	limits = limits.withDefaults()
	b := &budget{unpacked: limits.Unpacked}
	b.meter.left.Store(limits.Transfer)
	return b
}

// meter stops an attempt that receives more than it may.
type meter struct {
	left atomic.Int64
}

func (m *meter) wrap(r io.Reader) io.Reader { return &meteredReader{meter: m, reader: r} }

type meteredReader struct {
	meter  *meter
	reader io.Reader
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if r.meter.left.Add(-int64(n)) < 0 {
		return 0, errTransferLimit
	}
	return n, err
}
