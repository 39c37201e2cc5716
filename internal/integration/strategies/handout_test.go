package strategies

import (
	"testing"

	"github.com/sendonce/sendonce/internal/integration/servers"
	"github.com/sendonce/sendonce/internal/integration/strategies/combo"
)

// Every row is handed out exactly once, and those that failed twice, by workers
// that each could take all rows.
func TestExactlyOnceByGoroutines(t *testing.T) {
	combo.Each(t, func(t *testing.T, p *combo.Place) {
		tb := p.Table(t, 400)
		var workers []combo.Claimer
		for range 4 {
			workers = append(workers, tb.Worker(t))
		}
		exactlyOnce(t, tb, drain(t, once, workers...), oneInTwenty)
		noClaims(t, tb)
	})
}

func TestExactlyOnceByProcesses(t *testing.T) {
	byProcesses(t, 300, 3)
}

func TestExactlyOnceByProcessesSoak(t *testing.T) {
	servers.Soak(t)
	byProcesses(t, sized(4_000, 20_000), 8)
}

// byProcesses gives partitions out where there are any.
func byProcesses(t *testing.T, rows, processes int) {
	combo.Run(t, append(combo.All(), combo.AllUnmarked()...), func(t *testing.T, p *combo.Place) {
		tb := p.Table(t, rows)
		var specs []combo.Spec
		for i := range processes {
			s := tb.Spec()
			s.Partitions = combo.Share(i, processes)
			specs = append(specs, s)
		}
		exactlyOnce(t, tb, drainByProcesses(t, order{Workers: 1}, specs...), oneInTwenty)
		noClaims(t, tb)
	})
}
