package report

import "github.com/fluxcd/pkg/apis/meta"

// Reasons of a Fleet's conditions, beside those of the git adapter (AuthenticationFailed, RefNotFound, Unreachable, ...), which
// pass through as they are. Each is also the reason of the event that says it.
const (
	// ReasonSucceeded: every targeted node is complete at the applied revision.
	ReasonSucceeded = meta.ReconciliationSucceededReason
	// ReasonProgressing: a revision is being delivered or rolled out.
	ReasonProgressing = meta.ProgressingReason
	// ReasonRetry is the reason of Reconciling while a failure is retried; Ready names the failure.
	ReasonRetry = meta.ProgressingWithRetryReason
	// ReasonSuspended: the Fleet was suspended before anything was applied.
	ReasonSuspended = meta.SuspendedReason
	// ReasonHalted: a compartment halted; a new commit or an explicit resume goes on.
	ReasonHalted = "RolloutHalted"
	// ReasonRolloutFailed: every node has ended and some failed.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonBuildFailed: the overlay does not build.
	ReasonBuildFailed = meta.BuildFailedReason
	// ReasonValidationFailed: the manifests have errors.
	ReasonValidationFailed = "ValidationFailed"
	// ReasonEmptyBuild: the overlay yields no object; nothing is deleted.
	ReasonEmptyBuild = "EmptyBuild"
	// ReasonRefused: the API server refuses an object that validation let pass.
	ReasonRefused = "RefusedByServer"
	// ReasonOwnedByOther: another Fleet owns an object.
	ReasonOwnedByOther = "OwnedByOtherFleet"
	// ReasonApplyFailed: the API server could not be asked, or an object could not be written.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonAccountForbidden: the service account of the Fleet lacks a right.
	ReasonAccountForbidden = "ServiceAccountForbidden"
	// ReasonPruneFailed: an object that left the repository could not be deleted.
	ReasonPruneFailed = meta.PruneFailedReason
	// ReasonWaitingForPromotion: a revision is held back until other statuses of its commit are success. Also of the event that
	// says so for the first time.
	ReasonWaitingForPromotion = "WaitingForPromotion"
	// ReasonPromotionRefused: spec.promotion could never let anything through.
	ReasonPromotionRefused = "PromotionRefused"
	// ReasonStatusesUnreadable: the forge does not say what a commit shows.
	ReasonStatusesUnreadable = "StatusesUnreadable"
	// ReasonUnsupported: the Fleet asks for something that this release cannot do.
	ReasonUnsupported = "UnsupportedSpec"
)

// ConditionSourceVerified says whether the newest revision has the signatures that spec.source.verify demands. Type and the reason of
// success are Flux's. It is absent where none are demanded, and as long as nothing is known.
const ConditionSourceVerified = "SourceVerified"

// Reasons of the git adapter that are a verdict on signatures.
const (
	ReasonSignatureMissing    = "SignatureMissing"
	ReasonSignatureKeyUnknown = "SignatureKeyUnknown"
	ReasonSignatureInvalid    = "SignatureInvalid"
)

var signatureReasons = []string{ReasonSignatureMissing, ReasonSignatureKeyUnknown, ReasonSignatureInvalid}

// Reasons of events that are no condition.
const (
	// EventNewRevision: the tracked ref has a new commit.
	EventNewRevision = "NewRevision"
	// EventApplied: objects were written.
	EventApplied = "Applied"
	// EventDriftCorrected: someone's change of an owned field was put back.
	EventDriftCorrected = "DriftCorrected"
	// EventRecreated: an owned object that someone had deleted was created again. A reason of its own, because events about
	// one object for one reason are counted as one.
	EventRecreated = "ObjectRecreated"
	// EventPruned: an object that left the repository was deleted.
	EventPruned = "Pruned"
	// EventPruneSkipped: an object that left the repository was kept.
	EventPruneSkipped = "PruneSkipped"
	// EventHeldBack: a status that a revision waits for is failure or error.
	EventHeldBack = "HeldBack"
	// EventPromoted: a revision waits for nothing any more.
	EventPromoted = "Promoted"
	// EventPromotedByHand: a person let a revision through that still waited.
	EventPromotedByHand = "PromotedByHand"
	// EventWarning: a finding that stops nothing.
	EventWarning = "ValidationWarning"
	// EventRecovered: the last failure is gone.
	EventRecovered = "Recovered"
	// EventStatusFailed: a commit status could not be written.
	EventStatusFailed = "CommitStatusFailed"
	// EventReviewFailed: a pull request could not be planned, or not be told so.
	EventReviewFailed = "ReviewFailed"
)

// Actions of events: what the reconciler was doing.
const (
	ActionDeliver = "Deliver"
	ActionApply   = "Apply"
	ActionPrune   = "Prune"
	ActionPromote = "Promote"
	ActionRollout = "RollOut"
	ActionCheck   = "ReportStatus"
	ActionReview  = "Review"
)
