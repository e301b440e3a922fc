package forgetest

// Know makes a commit of a real repository known to the forge.
func (s *Server) Know(commit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits[commit] = true
}

// EditPull changes an open pull request as a push, a label or a merge does.
func (s *Server) EditPull(number int64, edit func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(s.pulls[number-1])
}

// Comments are the bodies of a pull request's comments, oldest first.
func (s *Server) Comments(number int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.commentsOf(number) {
		out = append(out, c.body)
	}
	return out
}
