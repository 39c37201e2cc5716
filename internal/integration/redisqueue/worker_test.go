package redisqueue

import "io"

const workerVar = "SENDONCE_TEST_QUEUE_WORKER"

func work(io.Reader) int { return 0 }
