package git

// Listing has the hash of the content of every file by path, links as the files that they lead to. Equal hashes are equal contents.
func (t *Tree) Listing() map[string]string {
	out := map[string]string{}
	for path := range t.entries {
		if _, e, err := t.follow(path); err == nil {
			out[path] = e.hash.String()
		}
	}
	return out
}
