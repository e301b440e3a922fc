package git

import (
	"bytes"
	"strings"
)

// signed is an object of git, taken apart into what was signed and the signature.
type signed struct {
	payload   []byte
	signature string // empty: there is none
}

// signatureHeaders are the headers of a commit that hold its signature, or that of the same commit under another hash. Neither is
// part of what is signed.
var signatureHeaders = []string{"gpgsig ", "gpgsig-sha256 "}

// signedCommit takes the header gpgsig out of the bytes of a commit as they are hashed: nothing is decoded and encoded again, so
// that headers which this program does not know stay part of what is verified. More than one signature is none that can be
// trusted: ok is false.
func signedCommit(raw []byte) (out signed, ok bool) {
	var signature strings.Builder
	count, inside, ours := 0, false, false
	rest := raw
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if len(line) == 0 { // the message follows
			break
		}
		consumed := rest[:len(rest)-len(after)]
		header := headerOf(line)
		switch {
		case inside && line[0] == ' ':
		case header != "":
			inside, ours = true, header == signatureHeaders[0]
			if ours {
				count++
			}
		default:
			inside = false
		}
		if inside && ours {
			signature.Write(bytes.TrimPrefix(bytes.TrimPrefix(consumed, []byte(signatureHeaders[0])), []byte(" ")))
		}
		if !inside {
			out.payload = append(out.payload, consumed...)
		}
		rest = after
	}
	out.payload = append(out.payload, rest...)
	out.signature = signature.String()
	return out, count <= 1
}

func headerOf(line []byte) string {
	for _, header := range signatureHeaders {
		if bytes.HasPrefix(line, []byte(header)) {
			return header
		}
	}
	return ""
}

// armors begin a signature at the end of a tag.
var armors = []string{"-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----", "-----BEGIN SIGNED MESSAGE-----"}

// signedTag splits a tag before its last signature, as git does.
func signedTag(raw []byte) signed {
	at := len(raw)
	for begin := 0; begin < len(raw); {
		for _, first := range armors {
			if bytes.HasPrefix(raw[begin:], []byte(first)) {
				at = begin
			}
		}
		end := bytes.IndexByte(raw[begin:], '\n')
		if end < 0 {
			break
		}
		begin += end + 1
	}
	return signed{payload: raw[:at], signature: string(raw[at:])}
}

// tagHeader is what a tag says about itself.
type tagHeader struct{ object, kind, name string }

func headerOfTag(raw []byte) tagHeader {
	var h tagHeader
	head, _, _ := bytes.Cut(raw, []byte("\n\n"))
	for line := range strings.Lines(string(head)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "object":
			h.object = value
		case "type":
			h.kind = value
		case "tag":
			h.name = value
		}
	}
	return h
}
