package claim

import "context"

// gate lets one in at a time, and nobody waits there beyond a context.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil { // also where the gate is free
		return err
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }
