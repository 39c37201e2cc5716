package sendonce

import "time"

// SetRandom gives the library another source of jitter, and SetWall another wall
// clock: the simulation's.
func SetRandom(f func(int64) int64)         { random = f }
func SetWall(f func(t time.Time) time.Time) { wall = f }

// SlowMark is when senders begin to wait for marks.
const SlowMark = slowMark
