// Gen makes the receivers of the quick start: 10,000 people, and the dirt that
// such files have (duplicates in other spellings, addresses that are none). It
// makes the same file every time. All domains are reserved ones (RFC 2606), so
// no address is anybody's.
//
// Run it with go generate, in the folder of the quick start.
package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"
)

const (
	receivers  = 10_000
	duplicates = 240
	malformed  = 24
)

func main() {
	if err := os.WriteFile("receivers.csv", generate(), 0o644); err != nil {
		log.Fatal("gen: ", err)
	}
}

// generate returns the file.
func generate() []byte {
	rnd := rand.New(rand.NewPCG(2, 10_000))
	lines := make([][]string, receivers, receivers+duplicates+malformed)
	taken := map[string]int{}
	for i := range lines {
		lines[i] = person(rnd, taken)
	}
	for range duplicates {
		of := lines[rnd.IntN(receivers)]
		lines = append(lines, []string{of[0], respelt(rnd, of)})
	}
	for i := range malformed {
		of := lines[rnd.IntN(receivers)]
		lines = append(lines, broken(of, i))
	}
	// Scatter what was added at the end over the whole file.
	for i := receivers; i < len(lines); i++ {
		j := rnd.IntN(i)
		lines[i], lines[j] = lines[j], lines[i]
	}
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	// Writing to memory does not fail.
	_ = w.Write([]string{"name", "email"})
	_ = w.WriteAll(lines)
	return buf.Bytes()
}

// person returns a name and an address that nobody else in taken has.
func person(rnd *rand.Rand, taken map[string]int) []string {
	p := people[rnd.IntN(len(people))]
	first, last := p.first[rnd.IntN(len(p.first))], p.last[rnd.IntN(len(p.last))]
	name := first.name + " " + last.name
	if p.familyFirst {
		name = last.name + first.name
	}
	if rnd.IntN(40) == 0 {
		name = last.name + ", " + first.name // a comma, so that CSV must quote it
	}
	local := first.ascii + "." + last.ascii
	if rnd.IntN(3) == 0 {
		local = first.ascii[:1] + "." + last.ascii
	}
	if taken[local]++; taken[local] > 1 {
		local += fmt.Sprint(taken[local])
	}
	if rnd.IntN(50) == 0 {
		local += "+news"
	}
	return []string{name, local + "@" + p.domains[rnd.IntN(len(p.domains))]}
}

// respelt returns the same address as another system might have stored it.
func respelt(rnd *rand.Rand, line []string) string {
	local, domain, _ := strings.Cut(line[1], "@")
	switch rnd.IntN(6) {
	case 0:
		return line[1]
	case 1:
		return local + "@" + strings.ToUpper(domain)
	case 2:
		return strings.ToUpper(local[:1]) + local[1:] + "@" + domain
	case 3:
		return "  " + line[1] + " "
	case 4:
		return "<" + line[1] + ">"
	}
	return fmt.Sprintf("%q <%s>", line[0], line[1])
}

// broken returns a line whose address is none, of the i-th kind.
func broken(line []string, i int) []string {
	local, domain, _ := strings.Cut(line[1], "@")
	bad := []string{
		"", local, local + "@", "@" + domain, local + "@@" + domain, local + " @ " + domain + " (old)",
		local + "@" + strings.ReplaceAll(domain, ".", ".."), local + ".@" + domain, local + "@-" + domain,
		local + "@localhost", "n/a", line[1] + "; " + line[1],
	}
	return []string{line[0], bad[i%len(bad)]}
}
