package membership

import (
	"slices"
	"testing"
	"time"
)

// played are the requests of an Asking: the server and the time since its begin.
type played struct {
	server string
	at     time.Duration
}

// play asks for a time. fails has the servers that answer at once, with an error.
func play(a *Asking, d time.Duration, fails ...string) (all []played, over bool) {
	now := begin
	for now < begin.Add(d) && !over {
		server, wait := a.Next(now)
		if server == "" {
			now = now.Add(wait)
			continue
		}
		all = append(all, played{server, now.Sub(begin)})
		if slices.Contains(fails, server) {
			over = a.Failed()
		}
	}
	return all, over
}

func TestAsking_PacesTheServers(t *testing.T) {
	const ttl = 12 * time.Second
	for _, c := range []struct {
		name  string
		fails []string
		want  []played
		over  bool
	}{
		{"nobody answers", nil, []played{{"a", 0}, {"b", 2 * time.Second}, {"c", 4 * time.Second}}, false},
		{"the first fails", []string{"a"}, []played{{"a", 0}, {"b", 0}, {"c", 2 * time.Second},
			{"a", 4 * time.Second}}, false},
		{"all fail", []string{"a", "b", "c"}, []played{{"a", 0}, {"b", 0}, {"c", 0}}, true},
		{"one hangs", []string{"b", "c"}, []played{{"a", 0}, {"b", 2 * time.Second}, {"c", 2 * time.Second},
			{"a", 4 * time.Second}}, false},
	} {
		got, over := play(NewAsking(ttl, []string{"a", "b", "c"}), 6*time.Second, c.fails...)
		if !slices.Equal(got, c.want) || over != c.over {
			t.Errorf("%s: asked %v, over: %t; want %v, %t", c.name, got, over, c.want, c.over)
		}
	}
}

// A machine that was suspended asks at once, and one at a time.
func TestAsking_AsksOnceAfterASuspend(t *testing.T) {
	a := NewAsking(0, []string{"a", "b"})
	_, _ = a.Next(begin)
	now := begin.Add(time.Hour)
	server, _ := a.Next(now)
	next, wait := a.Next(now)
	if server != "b" || next != "" || wait != unknownTTL/6 {
		t.Errorf("asked %s, and then %q or waits %s", server, next, wait)
	}
}
