package admission

import (
	"testing"
	"time"

	"berth/structs"
)

// The table of docs/operations/servers.md: a server turns up with an ID that is known.
func TestCheckServer_Table(t *testing.T) {
	const wait = 5 * time.Minute
	known := func(alive bool, silent time.Duration) *KnownServer {
		return &KnownServer{Server: Server{"s1", "a1", m1, false}, Alive: alive, Silent: silent}
	}
	alive := known(true, 0)
	failed := known(false, time.Minute)
	gone := known(false, wait)
	left := known(false, 0)
	left.Left = true
	older := &KnownServer{Server: Server{Name: "s1", Address: "a1"}, Alive: true}

	for _, c := range []struct {
		name  string
		known *KnownServer
		given Server
		taken bool
	}{
		{"new server", nil, Server{"s4", "a4", m2, false}, true},
		{"restart", alive, Server{"s1", "a1", m1, false}, true},
		{"restart at another address, at once", alive, Server{"s1", "a9", m1, false}, true},
		{"restart at another address, later", failed, Server{"s1", "a9", m1, false}, true},
		{"restart under another name, at once", alive, Server{"s9", "a9", m1, false}, false},
		{"restart under another name, later", failed, Server{"s9", "a9", m1, false}, true},
		{"copy beside the original", alive, Server{"s9", "a9", m2, false}, false},
		{"copy beside the original, with its name", alive, Server{"s1", "a9", m2, false}, false},
		{"copy, the original is cut off", failed, Server{"s9", "a9", m2, false}, false},
		{"copy with its name, the original is cut off", failed, Server{"s1", "a9", m2, false}, false},
		{"disk moved to another machine, at once", failed, Server{"s1", "a9", m2, false}, false},
		{"disk moved to another machine, after the wait", gone, Server{"s1", "a9", m2, false}, true},
		{"disk moved to another machine, the server had left", left, Server{"s1", "a9", m2, false}, true},
		{"the original after a copy that may not vote",
			&KnownServer{Server: Server{"s9", "a9", m2, true}, Alive: true}, Server{"s1", "a1", m1, false}, true},
		{"the original after a copy that was added anew",
			&KnownServer{Server: Server{"s9", "a9", m2, false}, Alive: true}, Server{"s1", "a1", m1, false}, false},
		{"whole machine started twice, with another name", alive, Server{"s9", "a9", m1, false}, false},
		{"machine replaced at its address", alive, Server{"s1", "a1", m2, false}, true},
		{"server of an older version, with its name", older, Server{"s1", "a9", m1, false}, true},
		{"server of an older version, with another name", older, Server{"s9", "a9", m1, false}, false},
	} {
		err := CheckServer(c.known, c.given, wait)
		if (err == nil) != c.taken {
			t.Errorf("%s: %v, want taken: %v", c.name, err, c.taken)
		}
		if err != nil && structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("%s: %v has the cause %q", c.name, err, structs.CauseOf(err))
		}
	}
}

func TestMayVote_Table(t *testing.T) {
	for _, c := range []struct {
		name  string
		start Start
		votes bool
	}{
		{"first start", Start{Now: m1}, true},
		{"restart, reboot, cold start of all", Start{Kept: m1, Now: m1, Voter: true}, true},
		{"the machine-id was made anew", Start{Kept: m1, Now: "product:1 machine:9", Voter: true}, true},
		{"copy, moved disk, restored on another machine", Start{Kept: m1, Now: m2, Voter: true}, false},
		{"the machine does not tell any more", Start{Kept: m1, Now: "", Voter: true}, false},
		{"another machine, without a vote", Start{Kept: m1, Now: m2}, true},
		{"one server alone", Start{Kept: m1, Now: m2, Voter: true, Only: true}, true},
	} {
		if got := MayVote(c.start); got != c.votes {
			t.Errorf("%s: votes %v, want %v", c.name, got, c.votes)
		}
	}
}
