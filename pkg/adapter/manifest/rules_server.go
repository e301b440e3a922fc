package manifest

import (
	"encoding/json"
	"fmt"

	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

const (
	// maxObject is the most that an object may need in the cluster's storage, in bytes: etcd takes 1.5 MiB by default, and a
	// status and the marks of a second writer have to fit as well. A dry run does not store, so no server tells before the
	// first write.
	maxObject = 1 << 20
	// maxPackage is the most that one package may need, in bytes: what was installed is kept in a ConfigMap, which holds 1 MiB.
	maxPackage = 1_000_000
)

// serverFields of metadata are filled by the API server. An apply that names them is refused, or means another object.
var serverFields = []string{"uid", "resourceVersion", "managedFields", "deletionTimestamp"}

// checkServer finds what a server refuses in an apply although it takes it in a create, or only when it stores it.
func checkServer(d *document) {
	metadata, _ := d.value["metadata"].(map[string]any)
	for _, field := range serverFields {
		if metadata[field] != nil {
			d.add(problem{
				code: CodeInvalidMetadata, path: path{"metadata", field},
				message: "is set by the API server; remove it, as everything that an export from a cluster adds",
			})
		}
	}
	if metadata["ownerReferences"] != nil {
		d.add(problem{
			code: CodeInvalidMetadata, path: path{"metadata", "ownerReferences"},
			message: "would let the cluster delete the object together with its owner; remove it",
		})
	}
	if size := len(d.JSON) + fieldNotes(d.value); size > maxObject {
		d.add(problem{
			code: CodeTooLarge, allowed: fmt.Sprintf("at most %d", maxObject),
			message: fmt.Sprintf("needs %d bytes in the cluster, its field names counted twice", size),
		})
	}
}

// fieldNotes is about the size of the managedFields of a server-side apply: `"f:name":{}` for each field.
func fieldNotes(value any) int {
	object, _ := value.(map[string]any)
	size := 0
	for name, below := range object {
		size += len(name) + 8 + fieldNotes(below)
	}
	return size
}

func checkPackageSize(w wright, p desired.Package) {
	text, err := json.Marshal(p)
	if err != nil || len(text) <= maxPackage {
		return
	}
	w.add(problem{
		code: CodeTooLarge, path: path{"spec", "packages", p.Name},
		message: fmt.Sprintf("package %q has %d bytes of settings", p.Name, len(text)), allowed: fmt.Sprintf("at most %d", maxPackage),
	})
}
