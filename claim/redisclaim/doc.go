// Package redisclaim is an ordered queue in Redis, and a [sendonce.Claimer].
package redisclaim
