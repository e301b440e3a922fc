package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hashLength is the number of hex digits of a hash: 64 bits, enough to tell apart the few definitions of one package.
const hashLength = 16

// keyHashLength is shorter: a key's hash is only compared with the one before it, on one node.
const keyHashLength = 8

func compare(a, b string) int { return cmp.Compare(a, b) }

// hashed returns p with its hashes.
func (p Package) hashed() Package {
	p.InstallHash = digestOf(hashLength, installContent{p.Version, p.imageID(), p.env()})
	p.ConfigHash = digestOf(hashLength, p.ConfigMap)
	p.KeyHashes = KeyHashes(p.ConfigMap)
	p.SnapshotHash = digestOf(hashLength, p)
	return p
}

// installContent is what the apply stage puts on a host.
type installContent struct {
	Version string          `json:"version"`
	Image   string          `json:"image"`
	Env     []corev1.EnvVar `json:"env"`
}

// imageID is what names the image's bytes best: its digest if one is given, else the repository (the version is the tag).
func (p Package) imageID() string {
	if p.Digest != "" {
		return p.Image + "@" + p.Digest
	}
	return p.Image
}

// Reference is the image reference to pull.
func (p Package) Reference() string {
	if p.Digest != "" {
		return p.Image + "@" + p.Digest
	}
	return p.Image + ":" + p.Version
}

// env is never nil, so that absent and empty are the same content. Its order counts: a later variable may use an
// earlier one.
func (p Package) env() []corev1.EnvVar {
	if p.Env == nil {
		return []corev1.EnvVar{}
	}
	return p.Env
}

// KeyHashes returns a short hash for each key of a configMap.
func KeyHashes(configMap map[string]string) map[string]string {
	out := make(map[string]string, len(configMap))
	for k, v := range configMap {
		out[k] = digestOf(keyHashLength, v)
	}
	return out
}

// setHash covers what the packages put on a host, in the order of their names.
func setHash(packages []Package) string {
	type entry struct {
		Name, Install, Config string
		Absent                bool
	}
	entries := make([]entry, 0, len(packages))
	for _, p := range packages {
		entries = append(entries, entry{p.Name, p.InstallHash, p.ConfigHash, p.Absent})
	}
	slices.SortFunc(entries, func(a, b entry) int { return compare(a.Name, b.Name) })
	return digestOf(hashLength, entries)
}

// digestOf returns the first n hex digits of the SHA-256 of v's JSON, whose map keys are sorted. An empty map and none
// are the same content.
func digestOf(n int, v any) string {
	if m, ok := v.(map[string]string); ok && m == nil {
		v = map[string]string{}
	}
	data, err := json.Marshal(v)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("hash %T: %v", v, err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:n]
}
