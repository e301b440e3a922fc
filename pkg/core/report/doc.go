// Package report words what people and machines read: conditions, statuses, events, commit statuses, names of metrics.
// The same plan or result yields the same words everywhere, and no other package words anything. It is pure; what could
// hold a credential goes through redaction.
package report
