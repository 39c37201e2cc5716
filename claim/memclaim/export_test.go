package memclaim

// Keys is how many keys cost memory, with the rows of their turns.
func (e *Executor[V, R]) Keys() (keys, rows int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lanes), len(e.rows.Rows())
}
