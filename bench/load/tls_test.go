package main

import (
	"strings"
	"testing"
)

func TestPrintSides_TakesRoundsThatLackResults(t *testing.T) {
	beats := func(rate float64) result { return result{"heartbeat, rate/s", rate} }
	claims := func(rate float64) result { return result{"write claim, rate/s", rate} }
	release := result{"release, rate/s", 5}
	var b strings.Builder
	err := printSides(&b, [2][][]result{
		{{claims(10)}, {beats(100), claims(10), release}},
		{{beats(50), claims(20)}, {claims(20)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	got := strings.Join(lines, "\n")
	want := `what plain TLS TLS/plain
write claim, rate/s 10.0 20.0 2.00
heartbeat, rate/s 100.0 50.0 0.50
release, rate/s measured on one side alone: give more -time`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
