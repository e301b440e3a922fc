package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Fleet says which directory of which repository drives this cluster, and what it may do here.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=fleets,singular=fleet,categories=fleetwright
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.lastAppliedRevision`
// +kubebuilder:printcolumn:name="Rolled Out",type=string,JSONPath=`.status.lastRolledOutRevision`
// +kubebuilder:printcolumn:name="Complete",type=integer,JSONPath=`.status.rollout.complete`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.rollout.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what people want.
	Spec FleetSpec `json:"spec"`

	// Status is what the reconciler observes. Until it has looked, observedGeneration is -1: tools that wait (kstatus) do not take
	// an object without conditions for one that is done.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status FleetStatus `json:"status,omitempty"`
}

// FleetList is a list of Fleets.
//
// +kubebuilder:object:root=true
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Fleet `json:"items"`
}

// FleetSpec is where the desired state comes from and what it may do.
type FleetSpec struct {
	// Source is the repository. Set by people. Required.
	Source Source `json:"source"`

	// Path of the directory in the repository whose kustomization is built. Set by people. Default `./`, its root.
	// +optional
	// +kubebuilder:default="./"
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`

	// Interval at which the repository is looked at, and drift of the applied objects is put back. Set by people.
	// Default 1m, at least 10s.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="must be at least 10s"
	Interval metav1.Duration `json:"interval,omitempty"`

	// Timeout of one fetch, and of one apply. Set by people. Default 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="must be more than zero"
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// Prune deletes objects of this Fleet that left the repository. Set by people. Default true.
	// +optional
	// +kubebuilder:default=true
	Prune bool `json:"prune"`

	// Suspend stops fetching and applying; a rollout that has begun goes on. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy is what happens to the applied objects when the Fleet is deleted: `Orphan` keeps them, `Prune` deletes
	// them. Set by people. Default Orphan.
	// +optional
	// +kubebuilder:default=Orphan
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Scope is what the repository may do in this cluster. Set by people. Default none: everything.
	// +optional
	Scope *Scope `json:"scope,omitempty"`

	// Disruption bounds what all NodeWrights together take out of service. Set by people. Default none: no bound.
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`

	// Checks says where commit statuses are written. Set by people. Default none: nowhere.
	// +optional
	Checks *Checks `json:"checks,omitempty"`

	// Promotion holds a commit back until other statuses of it are success. Set by people. Default none: at once.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`

	// Webhook lets a forge say that there is something to look at, so that nobody waits for the interval. Set by people.
	// Default none: the repository is only polled.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`

	// ServiceAccountName is the service account of this namespace as whom objects are applied and pruned, so that a Fleet can
	// do no more than its team may. Set by people. Default none: the reconciler's own account.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// DeletionPolicy is what happens to applied objects when their Fleet is deleted.
//
// +kubebuilder:validation:Enum=Orphan;Prune
type DeletionPolicy string

// Deletion policies.
const (
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionPrune  DeletionPolicy = "Prune"
)

// Source is a git repository.
type Source struct {
	// URL of the repository: https://, ssh:// or user@host:path; http:// and file:// only where the reconciler allows them.
	// Set by people. Required. Credentials do not belong here, but into secretRef.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?|ssh|file)://[^ ]+$') || self.matches('^[^/@: ]+@[^/: ]+:[^ ]+$')",message="must be an https://, ssh://, http:// or file:// URL, or user@host:path"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z]+://[^/@]*:[^/@]*@')",message="must not contain a password; credentials belong into the Secret of secretRef"
	URL string `json:"url"`

	// Ref is what is tracked. Set by people. Default the branch main.
	// +optional
	Ref *GitRef `json:"ref,omitempty"`

	// SecretRef names a Secret of this namespace with Flux's keys: username and password, bearerToken, those of a GitHub App
	// (githubAppID, githubAppInstallationID, githubAppPrivateKey, githubAppBaseURL), tls.crt and tls.key, ca.crt; for ssh
	// identity, password (its passphrase) and known_hosts. Set by people. Default none: no authentication.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`

	// ProxySecretRef names a Secret of this namespace with the keys address, and optionally username and password, of an HTTP
	// proxy for https. Set by people. Default none: HTTPS_PROXY of the reconciler's environment.
	// +optional
	ProxySecretRef *meta.LocalObjectReference `json:"proxySecretRef,omitempty"`

	// RecurseSubmodules fetches submodules that live on the same host, with the same credentials. Set by people. Default
	// false: a path that leads into a submodule is an error.
	// +optional
	// +kubebuilder:default=false
	RecurseSubmodules bool `json:"recurseSubmodules,omitempty"`

	// Verify demands signatures. Set by people. Default none.
	// +optional
	Verify *Verification `json:"verify,omitempty"`
}

// GitRef is what is tracked. The first that is set counts, in the order commit, semver, tag, branch.
type GitRef struct {
	// Branch to track. Set by people. Default main, if nothing else is set.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Branch string `json:"branch,omitempty"`
	// Tag to track. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of versions, the highest tag in which is tracked (`>=1.2.0 <2.0.0`). Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	SemVer string `json:"semver,omitempty"`
	// Commit is a full SHA. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40}|[0-9a-f]{64})?$`
	Commit string `json:"commit,omitempty"`
}

// DefaultBranch is tracked when Source.Ref names nothing.
const DefaultBranch = "main"

// VerificationMode is whose signature is demanded.
//
// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
type VerificationMode string

// Verification modes, as Flux names them.
const (
	VerifyHEAD       VerificationMode = "HEAD"
	VerifyTag        VerificationMode = "Tag"
	VerifyTagAndHEAD VerificationMode = "TagAndHEAD"
)

// Verification demands signatures.
type Verification struct {
	// Mode is whose signature is demanded: of the commit (`HEAD`), of the tag (`Tag`) or of both. Set by people. Default
	// HEAD.
	// +optional
	// +kubebuilder:default=HEAD
	Mode VerificationMode `json:"mode,omitempty"`
	// SecretRef names a Secret of this namespace whose values are OpenPGP or SSH public keys. Set by people. Required.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// Scope is what a repository may do in a cluster.
type Scope struct {
	// NodeSelector is ANDed with the selector of every NodeWright of this Fleet. Set by people. Default none: every node.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Images are patterns that every package image must match one of; `*` stands for any run of characters except `/`, `**`
	// also for that. Set by people. Default none: every image.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Images []string `json:"images,omitempty"`
	// Interrupts are the types that packages may ask for. Set by people. Default none: every type.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	Interrupts []nwv1.InterruptType `json:"interrupts,omitempty"`
	// RequireDigest refuses packages without containerSHA. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	RequireDigest bool `json:"requireDigest,omitempty"`
}

// Disruption bounds what all NodeWrights together take out of service.
type Disruption struct {
	// MaxNodes is how many nodes in scope we may hold cordoned or interrupted at once, as a number or a percentage (rounded
	// down, at least one). Set by people. Default none: no bound. Zero admits nobody.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=11
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^([0-9]|[1-9][0-9]|100)%$') : self >= 0",message="must be a number of nodes of at least 0, or a percentage such as 10%"
	MaxNodes *intstr.IntOrString `json:"maxNodes,omitempty"`
}

// ForgeProvider is the kind of server that commit statuses are written to.
//
// +kubebuilder:validation:Enum=github;gitlab;gitea;bitbucket;azuredevops;gitnotes
type ForgeProvider string

// Forge providers. `gitnotes` writes a JSON line per status into refs/notes/fleetwright of the repository itself.
const (
	ProviderGitHub      ForgeProvider = "github"
	ProviderGitLab      ForgeProvider = "gitlab"
	ProviderGitea       ForgeProvider = "gitea"
	ProviderBitbucket   ForgeProvider = "bitbucket"
	ProviderAzureDevOps ForgeProvider = "azuredevops"
	ProviderGitNotes    ForgeProvider = "gitnotes"
)

// Checks says where commit statuses are written.
type Checks struct {
	// Provider is the kind of server. Set by people. Required.
	Provider ForgeProvider `json:"provider"`
	// URL of the server, where it cannot be derived from source.url: github, gitlab, gitea and bitbucket (Data Center) take the
	// address that people see, with port and path; azuredevops that of the organisation or collection. Set by people. Default:
	// derived from source.url.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// SecretRef names a Secret of this namespace with the key token, or username and password, or the keys of a GitHub App, and
	// optionally ca.crt (gitnotes: the keys of source.secretRef). Set by people. Default none; gitnotes: source.secretRef.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
	// Context is the status's name. Set by people. Default fleetwright/<namespace>/<name>.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Context string `json:"context,omitempty"`
	// TargetURL is where a reader of the status finds more; `{namespace}`, `{name}` and `{commit}` in it are replaced. Set by
	// people. Default none; the web address of the commit where a forge demands one.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?://[^ ]+)?$`
	TargetURL string `json:"targetURL,omitempty"`
	// PullRequests says what is written to open pull requests. Set by people. Default none: nothing.
	// +optional
	PullRequests *PullRequestChecks `json:"pullRequests,omitempty"`
}

// PullRequestChecks says what is written to open pull requests.
type PullRequestChecks struct {
	// Plan writes the status <context>/plan. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	Plan bool `json:"plan,omitempty"`
	// Comment writes one comment with the plan, and keeps it up to date. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	Comment bool `json:"comment,omitempty"`
	// Forks says which pull requests from other repositories are planned: none (`Never`), those that somebody with the right
	// to label them gave the label fleetwright/plan for their present commit (`Label`), or all (`Always`). Set by people.
	// Default Label.
	// +optional
	// +kubebuilder:default=Label
	Forks ForkPolicy `json:"forks,omitempty"`
}

// ForkPolicy is which pull requests from other repositories are planned.
//
// +kubebuilder:validation:Enum=Never;Label;Always
type ForkPolicy string

// Fork policies.
const (
	ForksNever  ForkPolicy = "Never"
	ForksLabel  ForkPolicy = "Label"
	ForksAlways ForkPolicy = "Always"
)

// ForkLabel is the label that lets a pull request from another repository be planned.
const ForkLabel = "fleetwright/plan"

// Webhook is how a forge reports that something happened.
type Webhook struct {
	// Provider is whose requests are accepted. Set by people. Default checks.provider where that forge sends webhooks,
	// otherwise `generic`: a body signed with X-Fleetwright-Signature-256.
	// +optional
	Provider WebhookProvider `json:"provider,omitempty"`
	// SecretRef names a Secret of this namespace with the key token: the secret that signs requests. Set by people. Required.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// WebhookProvider is the kind of server that sends requests.
//
// +kubebuilder:validation:Enum=github;gitlab;gitea;bitbucket;azuredevops;generic
type WebhookProvider string

// WebhookGeneric is for senders that are no forge. The others are named as the ForgeProviders are.
const WebhookGeneric WebhookProvider = "generic"

// Promotion holds a commit back.
type Promotion struct {
	// After are the statuses that must be success on a commit before it is applied. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	After []PromotionGate `json:"after,omitempty"`
}

// PromotionGate is one status that must be success.
type PromotionGate struct {
	// Context is the status's name. Set by people. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Context string `json:"context"`
	// Soak is how long it must have been success. Set by people. Default none and zero: not at all.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	Soak *metav1.Duration `json:"soak,omitempty"`
}
