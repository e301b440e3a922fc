package cluster

import fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"

// Keys that only this package writes and reads.
const (
	// waveLabel is the wave of an interrupt, a decimal number; absent for other phases.
	waveLabel = fleetv1.Group + "/wave"
	// configMapLabel marks the immutable ConfigMaps with a package's configuration; its value is the config hash.
	configMapLabel = fleetv1.Group + "/config"
	// unusedAnnotation of a snapshot or a configuration is since when (RFC 3339) nothing is seen to use it.
	unusedAnnotation = fleetv1.Group + "/unused-since"
	// nodeLabelsAnnotation, nodeAnnotationsAnnotation and packagesAnnotation of a pod are what the package finds as files
	// below node-metadata (nodewright-compatible), through the downward API.
	nodeLabelsAnnotation      = fleetv1.Group + "/node-labels"
	nodeAnnotationsAnnotation = fleetv1.Group + "/node-annotations"
	packagesAnnotation        = fleetv1.Group + "/packages"
)
