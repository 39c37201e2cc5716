package sendonce

import (
	"context"
	"sync"
	"time"
)

// sendContext is the context of one Send. It is what context.WithDeadline would
// make of its parent, made when somebody first waits for it or asks it for a value:
// a timer for each row is a large part of what a short send costs.
type sendContext struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	real   context.Context // nil until it is needed
	cancel context.CancelFunc
	over   bool // the Send has returned
}

func (c *sendContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *sendContext) Done() <-chan struct{} { return c.made().Done() }

func (c *sendContext) Value(key any) any { return c.made().Value(key) }

func (c *sendContext) Err() error { return c.errAt(time.Now()) }

func (c *sendContext) errAt(now time.Time) error {
	c.mu.Lock()
	lazy := c.real == nil && !c.over && c.parent.Err() == nil && now.Before(c.deadline)
	c.mu.Unlock()
	if lazy {
		return nil
	}
	return c.made().Err()
}

func (c *sendContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
	case c.over: // whatever has happened to its parent since
		c.real, c.cancel = context.WithCancel(context.WithoutCancel(c.parent))
		c.cancel()
	default:
		c.real, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	return c.real
}

// end cancels what derives from it.
func (c *sendContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}
