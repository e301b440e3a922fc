package overlay

// fieldRule says what happens to one field of a kustomization file. A field that is in no rule is unknown.
type fieldRule struct {
	// refused says why the field may not be used; empty where it may.
	refused string
	// instead says what to write.
	instead string
	// deprecated names what replaces a field that still works.
	deprecated string
	// paths marks a list of directories or files to follow; dirs: directories only.
	paths, dirs bool
	// patches marks a list of patches.
	patches bool
	// everywhere marks a value that every object takes up.
	everywhere bool
}

const (
	runsCode  = "runs code during the build, which is not done here"
	generates = "makes ConfigMaps or Secrets, which a fleet does not deliver"
	isGlobal  = "changes kustomize for every build of the process, which is not done here"
	packaged  = "the package's own configMap field"
	plainYAML = "plain manifests under resources, and patches"
)

// fieldRules is the whole list of fields that kustomize v5 knows. What is not allowed here never reaches it.
var fieldRules = map[string]fieldRule{
	"apiVersion": {}, "kind": {}, "metadata": {},
	"resources":  {paths: true},
	"bases":      {paths: true, dirs: true, deprecated: "resources"},
	"components": {paths: true, dirs: true},
	"namePrefix": {everywhere: true}, "nameSuffix": {everywhere: true}, "namespace": {everywhere: true},
	"labels": {everywhere: true}, "commonLabels": {everywhere: true, deprecated: "labels"}, "commonAnnotations": {everywhere: true},
	"patches":               {patches: true},
	"patchesStrategicMerge": {patches: true, deprecated: "patches"},
	"patchesJson6902":       {patches: true, deprecated: "patches"},
	"replacements":          {}, "images": {everywhere: true}, "replicas": {everywhere: true}, "sortOptions": {}, "buildMetadata": {},

	"openapi":                     {refused: isGlobal, instead: "JSON patches for lists"},
	"crds":                        {refused: isGlobal, instead: "nothing: the kinds of a fleet are known"},
	"configurations":              {refused: isGlobal, instead: "patches or replacements"},
	"generators":                  {refused: runsCode, instead: plainYAML},
	"transformers":                {refused: runsCode, instead: plainYAML},
	"validators":                  {refused: runsCode, instead: "nothing: every object is validated"},
	"helmGlobals":                 {refused: runsCode, instead: plainYAML},
	"helmCharts":                  {refused: runsCode, instead: plainYAML},
	"helmChartInflationGenerator": {refused: runsCode, instead: plainYAML},
	"configMapGenerator":          {refused: generates, instead: packaged},
	"secretGenerator":             {refused: generates, instead: packaged},
	"generatorOptions":            {refused: generates, instead: packaged},
	"vars":                        {refused: "is deprecated by kustomize", instead: "replacements"},
	"imageTags":                   {refused: "is deprecated by kustomize", instead: "images"},
}
