package unique

import "io"

func work(io.Reader) error { return nil }
