package schema

import (
	"embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

//go:generate go run ./gen -root ..

// FS holds one file per kind: `<kind in lower case>.json`.
//
//go:embed *.json
var FS embed.FS

// BaseID starts the $id of every schema; the file name follows.
const BaseID = "https://fleetwright.dev/schemas/"

// Kinds that people write, in the order in which they are documented.
func Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		nwv1.GroupVersion.WithKind(nwv1.KindNodeWright),
		nwv1.GroupVersion.WithKind(nwv1.KindDeploymentPolicy),
		fleetv1.GroupVersion.WithKind(fleetv1.KindPackage),
		fleetv1.GroupVersion.WithKind(fleetv1.KindFleet),
	}
}

// FileName of a kind's schema.
func FileName(kind string) string { return strings.ToLower(kind) + ".json" }

// For returns the JSON Schema of a kind; an error if there is none.
func For(gvk schema.GroupVersionKind) ([]byte, error) {
	for _, known := range Kinds() {
		if known == gvk {
			return FS.ReadFile(FileName(gvk.Kind))
		}
	}
	return nil, fmt.Errorf("find JSON Schema: no kind %s in %s", gvk.Kind, gvk.GroupVersion())
}

// PackageConfigFile is the schema of a package's config.json in FS. It is written by hand: there is no API type of it. The agent
// checks more than a schema can say (pkg/agent.ParseConfig), and never less.
const PackageConfigFile = "package-config.json"

// PlanFile is the schema of what `fleetwright plan -o json` prints, in FS. It is written by hand, as Plan of pkg/core/preview is no API type;
// a test holds the two together.
const PlanFile = "plan.json"
