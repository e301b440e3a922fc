package v1alpha1

import "github.com/fluxcd/pkg/apis/meta"

// Names that are the same everywhere.
const (
	// FieldManager of everything that we write.
	FieldManager = "fleetwright"
	// LeaseName of the leader election.
	LeaseName = "fleetwright-reconciler"
	// ReviewLeaseName of the leader election of reviewers.
	ReviewLeaseName = "fleetwright-reviewer"
	// DefaultNamespace of the reconciler.
	DefaultNamespace = "fleetwright"
	// PriorityClassName of executions; it never preempts.
	PriorityClassName = "fleetwright-execution"
	// SnapshotPrefix starts the name of the immutable ConfigMap that keeps what was installed; a hash follows.
	SnapshotPrefix = "fw-snap-"
)

// RecordPrefix starts the annotation of a node that says what the node is under a NodeWright, whose name follows. It has
// 7 characters after the slash; at most 9 leave room for the longest name.
const RecordPrefix = Group + "/record_"

// RecordKey is that annotation for one NodeWright.
func RecordKey(nodeWright string) string { return RecordPrefix + nodeWright }

// Verbs that people ask for with an annotation on a NodeWright or a node. The value is a token of their choice, a time
// say; a token that was handled is not handled again.
const (
	VerbRetry            = "retry"
	VerbReset            = "reset"
	VerbRerun            = "rerun"
	VerbRegate           = "regate"
	VerbResume           = "resume"
	VerbAbandonUninstall = "abandon-uninstall"
)

// VerbKey is the annotation that asks for a verb.
func VerbKey(verb string) string { return Group + "/" + verb }

// Annotations and labels on the objects that a Fleet applies.
const (
	// FleetNameLabel and FleetNamespaceLabel name the Fleet that owns the object.
	FleetNameLabel      = Group + "/fleet-name"
	FleetNamespaceLabel = Group + "/fleet-namespace"
	// RevisionAnnotation is the Flux-style revision that the object comes from.
	RevisionAnnotation = Group + "/revision"
	// OriginAnnotation is the file and line in the repository that the object comes from.
	OriginAnnotation = Group + "/origin"
	// DigestAnnotation is a hash of what was sent: a differing one means that fields may have to go that no comparison of
	// values shows.
	DigestAnnotation = Group + "/digest"
	// PruneAnnotation with the value `disabled` keeps an object that left the repository.
	PruneAnnotation = Group + "/prune"
	// PruneDisabled is the one value of PruneAnnotation.
	PruneDisabled = "disabled"
	// RequestedAtAnnotation on a Fleet asks for a reconciliation, as Flux users expect.
	RequestedAtAnnotation = meta.ReconcileRequestAnnotation
	// PromoteAnnotation on a Fleet lets one commit through that spec.promotion holds back. The value is its whole hash.
	PromoteAnnotation = Group + "/promote"
	// PushedAtAnnotation on a Fleet says that its repository has something new, perhaps. The value is a token, a time say.
	// Unlike RequestedAtAnnotation it starts no build of a revision that is known, and is not echoed.
	PushedAtAnnotation = Group + "/pushed-at"
	// ReviewRequestedAtAnnotation on a Fleet asks for a look at its open pull requests. The value is a token, a time say.
	ReviewRequestedAtAnnotation = Group + "/review-requested-at"
)

// UninstallFinalizer holds a NodeWright that was deleted until its packages with `uninstall.enabled` are off the hosts.
const UninstallFinalizer = Group + "/uninstall"

// Marks of the reconciler on a Fleet.
const (
	// PruneFinalizer holds a Fleet whose objects have to go with it. A Fleet that orphans them carries none: its deletion needs
	// nobody.
	PruneFinalizer = Group + "/prune"
	// OpenCommitsAnnotation lists the commits, with commas, whose status is not known to be final, so that each comes to an end
	// even if the process dies between two commits.
	OpenCommitsAnnotation = Group + "/open-commits"
)

// Labels and annotations on execution Jobs and their pods.
const (
	// ManagedByLabel has the value FieldManager on everything that we create.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// NodeWrightUIDLabel and NodeUIDLabel identify whose execution it is.
	NodeWrightUIDLabel = Group + "/nodewright-uid"
	NodeUIDLabel       = Group + "/node-uid"
	// PackageNameLabel is the package's name.
	PackageNameLabel = Group + "/package"
	// RoundLabel, BatchLabel and AttemptLabel are decimal numbers.
	RoundLabel   = Group + "/round"
	BatchLabel   = Group + "/batch"
	AttemptLabel = Group + "/attempt"
	// PhaseLabel is the first stage of the phase.
	PhaseLabel = Group + "/phase"
	// NodeWrightAnnotation, NodeAnnotation and CompartmentAnnotation hold names that may be too long for labels.
	NodeWrightAnnotation  = Group + "/nodewright"
	NodeAnnotation        = Group + "/node"
	CompartmentAnnotation = Group + "/compartment"
	// OrderAnnotation is the order number of the node's admission.
	OrderAnnotation = Group + "/order"
	// SnapshotLabel marks the ConfigMaps with snapshots; its value is the hash.
	SnapshotLabel = Group + "/snapshot"
)
