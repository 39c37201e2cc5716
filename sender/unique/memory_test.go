package unique_test

import (
	"testing"

	"github.com/sendonce/sendonce/sender/unique"
	"github.com/sendonce/sendonce/sender/unique/uniquetest"
)

func TestMemory(t *testing.T) {
	uniquetest.Run(t, uniquetest.Harness{
		Synctest: true,
		Open: func(testing.TB) uniquetest.Store {
			m := unique.NewMemory()
			return uniquetest.Store{New: func() unique.Store { return m }}
		},
	})
}
