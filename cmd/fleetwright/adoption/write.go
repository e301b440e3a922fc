package adoption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Create makes the converted objects. One that exists by now stays as it is.
func (s *Source) Create(ctx context.Context, t *Takeover) error {
	for _, o := range t.Objects {
		err := s.client.Create(ctx, o, client.FieldOwner("fleetwright-cli"))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
		for i := range t.Entries {
			if _, ok := o.(*nwv1.NodeWright); ok && t.Entries[i].NodeWright == o.GetName() && t.Entries[i].Record != nil {
				t.Entries[i].Record.NodeWright = o.GetUID()
			}
		}
	}
	return nil
}

// Write writes the records, node by node. What fails on one keeps no other from being written.
func (s *Source) Write(ctx context.Context, t *Takeover) error {
	var errs []error
	for _, e := range t.Entries {
		if e.Record == nil {
			continue
		}
		if err := (cluster.Adopter{Client: s.kube, Namespace: s.namespace}).Write(ctx, t.nodes[e.Node], e); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Unclear counts what needs a person.
func (t *Takeover) Unclear() int {
	n := len(t.Problems)
	for _, e := range t.Entries {
		if len(e.Ambiguous) > 0 {
			n++
		}
	}
	return n
}

// Text is the takeover for people.
func (t *Takeover) Text(done bool) string {
	var b strings.Builder
	verb := map[bool]string{false: "would be ", true: ""}[done]
	for _, o := range t.Objects {
		kind := nwv1.KindDeploymentPolicy
		if _, ok := o.(*nwv1.NodeWright); ok {
			kind = nwv1.KindNodeWright
		}
		fmt.Fprintf(&b, "%s %s: %screated from the object of %s\n", kind, o.GetName(), verb, nwv1.LegacyGroup)
	}
	for _, e := range t.Entries {
		fmt.Fprintf(&b, "node %s, nodewright %s: ", e.Node, e.NodeWright)
		switch {
		case e.Adopted:
			b.WriteString("has a record already\n")
		case len(e.Ambiguous) > 0:
			b.WriteString("left alone, because it is not clear what is there\n")
		default:
			fmt.Fprintf(&b, "%sadopted\n", verb)
		}
		for _, line := range e.Ambiguous {
			b.WriteString("  unclear:  " + line + "\n")
		}
		for _, line := range e.Done {
			b.WriteString("  complete: " + line + "\n")
		}
		for _, line := range e.Runs {
			b.WriteString("  will run: " + line + "\n")
		}
		if e.Cordon && e.Record != nil {
			b.WriteString("  cordon:   taken over, and given back at the end of the node's turn\n")
		}
	}
	for _, p := range t.Problems {
		b.WriteString("problem: " + p + "\n")
	}
	if len(t.Objects)+len(t.Entries)+len(t.Problems) == 0 {
		b.WriteString("nothing of NVIDIA's operator is left to adopt\n")
	}
	return b.String()
}
