package servers

// For tests that look at what a dead test binary left.
const DirPrefix = dirPrefix

var (
	WorkingIn = workingIn
	Alive     = alive
)
