package wake

import fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"

// Kind is what an event is about.
type Kind string

// Kinds of events.
const (
	// Push moved, made or deleted refs.
	Push Kind = "push"
	// PullRequest was opened, changed, labelled or closed.
	PullRequest Kind = "pull request"
	// Ping is how a forge tries out a new webhook.
	Ping Kind = "ping"
	// Ignored is everything else.
	Ignored Kind = "ignored"
)

// Event is what a forge says, in words that are the same for all of them. Every field may be empty.
type Event struct {
	Kind Kind
	// Name is what the forge calls the event, for the log.
	Name string
	// Repositories are the ways that lead to the repository, as far as the payload tells them.
	Repositories []Repository
	// Refs are the full names of everything that a push moved, made or deleted. A sender that is no forge may give a short
	// name, which stands for the branch and for the tag.
	Refs []string
	// Bases are the branches that a pull request is, or until now was, to be merged into.
	Bases []string
	// Retargeted says that a pull request was for another branch until now, and the forge does not tell which.
	Retargeted bool
	// DefaultBranch of the repository; empty if the payload does not tell.
	DefaultBranch string
}

// Result says what became of a request. It is a label of a metric.
type Result string

// Results.
const (
	// Accepted: at least one Fleet looks.
	Accepted Result = "accepted"
	// Unfollowed: the request is genuine, but no Fleet follows what moved.
	Unfollowed Result = "unfollowed"
	// Replayed: the same delivery was accepted before.
	Replayed Result = "replayed"
	// Pinged: a forge tried out its webhook, and its signature is right.
	Pinged Result = "ping"
	// Unknown: an event that concerns nobody.
	Unknown Result = "ignored"
	// Forbidden: no Fleet that names this repository has a secret that fits the signature.
	Forbidden Result = "forbidden"
	// Unsigned: the signature is missing, or is none.
	Unsigned Result = "unsigned"
	// Malformed: the body is not what the forge sends.
	Malformed Result = "malformed"
	// TooLarge: the body is longer than any that is read.
	TooLarge Result = "too_large"
	// Encoded: the body is compressed.
	Encoded Result = "encoded"
	// Limited: the sender asks too often, or too many requests are being worked on.
	Limited Result = "limited"
	// Unavailable: the API server did not answer.
	Unavailable Result = "unavailable"
)

// Refusal is a request that is not accepted, in one sentence for whoever set the webhook up. It holds no secret.
type Refusal struct {
	Result  Result
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// ProviderOf is whose requests a Fleet accepts: what it says, or else the forge that its commit statuses go to, if that one
// sends webhooks.
func ProviderOf(spec fleetv1.FleetSpec) fleetv1.WebhookProvider {
	if spec.Webhook != nil && spec.Webhook.Provider != "" {
		return spec.Webhook.Provider
	}
	if spec.Checks == nil || spec.Checks.Provider == "" || spec.Checks.Provider == fleetv1.ProviderGitNotes {
		return fleetv1.WebhookGeneric
	}
	return fleetv1.WebhookProvider(spec.Checks.Provider)
}
