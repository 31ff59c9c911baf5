package fence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/server/fencing"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/test/kit"
)

// ipmi is a device of a controller for each machine, whose program writes its input into a file.
func ipmi(t *testing.T) (device *fencing.Device, input string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "fence_test")
	input = filepath.Join(dir, "input")
	script := "#!/bin/sh\nall=$(cat)\necho \"$all\" >>" + input +
		"\ncase \"$all\" in *action=status*) exit 2 ;; esac\nexit 0\n"
	if err := kit.WriteProgram(program, script); err != nil {
		t.Fatal(err)
	}
	return &fencing.Device{
		Name:    "ipmi",
		Agent:   program,
		Options: map[string]string{"ip": "${pin.bmc}"},
		Match:   map[string]string{"pin.rack": "r1"},
	}, input
}

func (c *testCluster) pin(node string, pins map[string]string) {
	c.t.Helper()
	propose(c, fsm.FencePins, &cluster.NodeFencePinRequest{NodeID: node, Pins: pins, By: "ann"})
}

// step takes a step of a leader with a device.
func (c *testCluster) step(device *fencing.Device) {
	c.t.Helper()
	l := &Loop{
		Common: loop.Common{
			Store:    c.Store,
			Proposer: c,
			Logger:   hclog.NewNullLogger(),
		},
		Now:     time.Now,
		Devices: NewDevices([]*fencing.Device{device}),
	}
	if _, err := l.Step(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// TestLoop_FencesTheMachineThatRootHasPinned: a node that tells the address and the name of another machine
// before its loss does not have that one switched off in its place.
func TestLoop_FencesTheMachineThatRootHasPinned(t *testing.T) {
	device, input := ipmi(t)
	c := newCluster(t)
	c.pin("n1", map[string]string{"bmc": "10.0.9.1", "plug": "slot1", "rack": "r1"})
	c.pin("n3", map[string]string{"bmc": "10.0.9.3", "plug": "slot3", "rack": "r1"})
	lies := map[string]string{
		"bmc": "10.0.9.3", "pin.bmc": "10.0.9.3", "plug": "slot3", "rack": "r3", "unique.hostname": "n3",
	}
	propose(c, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: &structs.Node{
		ID: "n1", Name: "n3", SecretID: "n1", Status: structs.NodeReady,
		Meta: lies, Attributes: lies, NodeClass: "slot3", NodePool: "slot3", Datacenter: "slot3",
	}})
	c.down("n1")

	c.step(device)
	c.wantRuns("ipmi 1 proved")
	got, err := os.ReadFile(input)
	if err != nil {
		t.Fatal(err)
	}
	const asked = "ip=10.0.9.1\nplug=slot1\nnodename=slot1\naction="
	if want := asked + "off\n" + asked + "status\n"; string(got) != want {
		t.Errorf("the agent read %q, want %q", got, want)
	}
}

// TestLoop_ProvesNothingWithoutAPin: the run says which pin is missing, and how to give it.
func TestLoop_ProvesNothingWithoutAPin(t *testing.T) {
	device, input := ipmi(t)
	for want, pins := range map[string]map[string]string{
		`match: node n1 has no pin "rack": berth node fence -pin n1 rack=VALUE`:       {"bmc": "10.0.9.1"},
		`match: pin.rack of node n1 is not "r1"`:                                      {"rack": "r2"},
		`options: ip: node n1 has no pin "bmc": berth node fence -pin n1 bmc=VALUE`:   {"rack": "r1"},
		`plug: node n1 has no pin "plug": berth node fence -pin n1 plug=VALUE, with `: {"rack": "r1", "bmc": "10.0.9.1"},
	} {
		c := newCluster(t)
		c.pin("n1", pins)
		c.step(device)
		c.wantRuns("1 failed no-device")
		reason := state.FenceRuns(c.Store.Read(), "n1")[0].Reason
		if !strings.Contains(reason, "covers its volumes: ipmi: "+want) {
			t.Errorf("the reason is %q, want %q", reason, want)
		}
		if held := c.holds("n1"); held != "fenced held" {
			t.Errorf("without a pin: n1 holds %q", held)
		}
	}
	if _, err := os.Stat(input); err == nil {
		t.Error("the agent ran without a pin")
	}
}

// TestLoop_ReadsThePinsForEachRun: a pin that root gives after a failed attempt counts for the next one.
func TestLoop_ReadsThePinsForEachRun(t *testing.T) {
	virtual(t, func(t *testing.T, c *testCluster) {
		needs := &needsPin{}
		stop := c.lead(&Device{Name: "ipmi", Scope: fencing.ScopePower, Agent: needs})
		defer stop()
		after(2 * interval)
		c.wantRuns("1 failed no-device")
		c.pin("n1", map[string]string{"bmc": "10.0.9.1"})
		synctest.Wait()
		propose(c, fsm.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n1", By: "ann"})
		after(2 * interval)
		c.wantRuns("1 failed no-device", "ipmi 2 proved")
	})
}

// needsPin is an agent that fences nodes with the pin bmc.
type needsPin struct{ agent }

func (a *needsPin) Matches(t *state.FenceTarget) string {
	if t.Pins["bmc"] == "" {
		return "no bmc"
	}
	a.fence = succeeds
	return ""
}
