package git

// VerifyCommit says what is wrong with the signature of a tree's commit, which was fetched without a demand for one. The error is an
// *Error.
func (k PublicKeys) VerifyCommit(t *Tree) error {
	_, err := k.verifyCommit(t)
	return err
}
