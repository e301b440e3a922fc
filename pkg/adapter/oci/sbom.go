package oci

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// spdxDocument is the part of SPDX 2.3 that says what a Go program was made of. The source of names and rules is the SPDX
// specification, chapters 6 (document), 7 (package) and 11 (relationships).
type spdxDocument struct {
	SPDXVersion       string             `json:"spdxVersion"`
	DataLicense       string             `json:"dataLicense"`
	SPDXID            string             `json:"SPDXID"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      spdxCreation       `json:"creationInfo"`
	Packages          []spdxPackage      `json:"packages"`
	Relationships     []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name             string            `json:"name"`
	SPDXID           string            `json:"SPDXID"`
	VersionInfo      string            `json:"versionInfo"`
	DownloadLocation string            `json:"downloadLocation"`
	FilesAnalyzed    bool              `json:"filesAnalyzed"`
	LicenseConcluded string            `json:"licenseConcluded"`
	LicenseDeclared  string            `json:"licenseDeclared"`
	CopyrightText    string            `json:"copyrightText"`
	Checksums        []spdxChecksum    `json:"checksums,omitempty"`
	ExternalRefs     []spdxExternalRef `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

type spdxExternalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	spdxDocumentID  = "SPDXRef-DOCUMENT"
	spdxNoAssertion = "NOASSERTION"
)

// SBOM lists the modules that a Go program was linked from, with versions and package URLs, as SPDX 2.3 in JSON. Equal binaries
// give equal text. A file that is no Go program is an error.
func SBOM(name, version string, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("list modules of %s: %w", name, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(binary))
	main := spdxPackageOf("SPDXRef-program", info.Main.Path, version)
	main.Name, main.Checksums = name, []spdxChecksum{{"SHA256", sum}}
	doc := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: spdxDocumentID, Name: name + " " + version,
		DocumentNamespace: "https://fleetwright.dev/sbom/" + name + "/" + sum,
		CreationInfo:      spdxCreation{epoch.Format(time.RFC3339), []string{"Tool: fleetwright"}},
		Packages:          []spdxPackage{main},
		Relationships:     []spdxRelationship{{spdxDocumentID, "DESCRIBES", main.SPDXID}},
	}
	modules := append([]*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for i, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		p := spdxPackageOf(fmt.Sprintf("SPDXRef-module-%d", i), m.Path, m.Version)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, spdxRelationship{main.SPDXID, "DEPENDS_ON", p.SPDXID})
	}
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, fmt.Errorf("list modules of %s: %w", name, err)
	}
	return append(out, '\n'), nil
}

func spdxPackageOf(id, path, version string) spdxPackage {
	return spdxPackage{
		Name: path, SPDXID: id, VersionInfo: version, DownloadLocation: spdxNoAssertion,
		LicenseConcluded: spdxNoAssertion, LicenseDeclared: spdxNoAssertion, CopyrightText: spdxNoAssertion,
		ExternalRefs: []spdxExternalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
}
