package sendonce

import "context"

// Dispatcher hands claimed rows to a Sender and records what became of them.
type Dispatcher[T any] struct{}

// New checks cfg and makes a Dispatcher.
func New[T any](c Claimer[T], s Sender[T], cfg Config) (*Dispatcher[T], error) { panic("todo") }

// Run dispatches until ctx ends.
func (d *Dispatcher[T]) Run(ctx context.Context) error { panic("todo") }

// Drain dispatches until nothing is left to do.
func (d *Dispatcher[T]) Drain(ctx context.Context) (Stats, error) { panic("todo") }

// Stats returns the counters.
func (d *Dispatcher[T]) Stats() Stats { panic("todo") }

// Health returns the state of the moment.
func (d *Dispatcher[T]) Health() Health { panic("todo") }
