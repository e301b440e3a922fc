// Package apiverdict compares what the offline validation says about manifests with what a real API server says.
package apiverdict
