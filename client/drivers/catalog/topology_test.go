package catalog

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"berth/client/drivers/protocol/base"
	"berth/client/machine"
)

func TestTopology_HasTheFieldsOfTheDialect(t *testing.T) {
	got := topologyOf(&machine.Topology{
		Nodes:     []int{0, 2},
		Distances: [][]int{{10, 21}, {22, 10}},
		Cores: []machine.Core{
			{ID: 0, Socket: 1, BaseSpeed: 2000, MaxSpeed: 3000, GuessSpeed: 2500},
			{ID: 5, Node: 2, Efficient: true, Disabled: true, GuessSpeed: 1000},
		},
	}, 4000)
	want := &base.ClientTopology{
		NodeIds:   []uint32{0, 2},
		Distances: &base.ClientTopologySLIT{Dimension: 2, Values: []uint32{10, 21, 22, 10}},
		Cores: []*base.ClientTopologyCore{
			{SocketId: 1, BaseSpeed: 2000, MaxSpeed: 3000, GuessSpeed: 2500},
			{NodeId: 2, CoreId: 5, CoreGrade: base.CoreGrade_Efficiency, Disable: true, GuessSpeed: 1000},
		},
		OverrideTotalCompute: 4000,
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDriverConfig_HasTheProcessorsOfTheMachine(t *testing.T) {
	c := &Catalog{cfg: Config{Compute: 4000}, topology: machine.ReadTopology()}
	got := c.driverConfig().GetTopology()
	if len(got.GetCores()) == 0 || len(got.GetCores()) != len(c.topology.Cores) ||
		got.GetOverrideTotalCompute() != 4000 {
		t.Errorf("got %v", got)
	}
}

// A process of an earlier agent is not used on other processors: it learned of them by its configuration.
func TestReattach_UsesNoProcessThatKnowsOtherProcessors(t *testing.T) {
	c, err := opened(t, "good")
	if err != nil {
		t.Fatal(err)
	}
	p := c.plugins["tester"]
	same, err := p.computeDigest(c.topologyDigest())
	if err != nil || same != p.digest {
		t.Fatalf("the digest of the same topology differs: %v", err)
	}
	c.topology.Cores[0].GuessSpeed++
	same, err = p.computeDigest(c.topologyDigest())
	if err != nil || same != p.digest {
		t.Errorf("a guess is part of the digest: %v", err)
	}
	c.topology.Cores = c.topology.Cores[1:]
	other, err := p.computeDigest(c.topologyDigest())
	if err != nil || other == p.digest {
		t.Errorf("the number of cores is no part of the digest: %v", err)
	}
}

func TestStart_QuotesTheLastWordsOfAPluginThatDies(t *testing.T) {
	c, err := opened(t, "panics")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Start(context.WithoutCancel(t.Context()), "tester")
	if err == nil || !strings.Contains(err.Error(), "panic: this machine has no cores") {
		t.Fatalf("got %v", err)
	}
	if strings.ContainsAny(err.Error(), "\a\n") || len(err.Error()) > 1024 {
		t.Errorf("the description is not printable or too long: %q", err)
	}
}

func TestLastWords_BeginWithAPanicOrAreWholeLines(t *testing.T) {
	line := "a line of the log\n"
	for name, tc := range map[string]struct{ text, want string }{
		"short": {"no licence", "no licence"},
		"panic": {line + "panic: x\ngoroutine 1", "panic: x\ngoroutine 1"},
		"first": {"fatal error: x", "fatal error: x"},
		"lines": {strings.Repeat(line, 100), strings.Repeat(line, maxWords/len(line)-1)},
		"long":  {strings.Repeat("x", 2*maxWords), strings.Repeat("x", maxWords)},
	} {
		if got := lastWords(tc.text); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// panicIf ends the process of a plugin as a fault of its program does.
func panicIf(asked bool) {
	if asked {
		panic("this machine has no cores\a")
	}
}
