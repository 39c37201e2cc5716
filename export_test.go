package sendonce

import (
	"context"
	"time"
)

// SetRandom gives the library another source of jitter, and SetWall another wall
// clock: the simulation's.
func SetRandom(f func(int64) int64)         { random = f }
func SetWall(f func(t time.Time) time.Time) { wall = f }

// SlowMark is when senders begin to wait for marks.
const SlowMark = slowMark

// NewSendContext makes what a Send gets, and what ends it.
func NewSendContext(parent context.Context, deadline time.Time) (ctx context.Context, end func()) {
	c := &sendContext{parent: parent, deadline: deadline}
	return c, c.end
}
