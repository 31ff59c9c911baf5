package watch

import (
	"io"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
)

func TestHeldVolumes_ReturnsTheHeldVolumes(t *testing.T) {
	addr := clitest.HeldCluster(t, structs.AllocComplete, 1)
	c := &command.Call{
		Command: &command.Command{},
		API:     api.NewClient(api.ClientConfig{Address: addr}),
	}
	c.Out = io.Discard
	defer c.API.Close()
	w := New(c)
	for _, want := range [][]string{{"data"}, nil} {
		still, err := w.heldVolumes(t.Context(), "db", []string{"gone", "data", "free"})
		if err != nil || !slices.Equal(still, want) {
			t.Errorf("got %v, error %v, want %v", still, err, want)
		}
	}
}

// The message of the node names the remedy. "berth volume retry" does not reach a node.
func TestWhyHeld_DoesNotOfferARetryThatReachesNoNode(t *testing.T) {
	claim := &structs.CSIClaim{ReleaseError: &structs.OperationError{
		Code:      "Unimplemented",
		Message:   "Unimplemented: no; restart it",
		Attempts:  1,
		RetryTime: structs.NeverTry,
	}}
	if got := WhyHeld(claim); got != "Unimplemented: no; restart it" {
		t.Errorf("got %q", got)
	}
}

func TestJobRun_ShowsAFailedAttach(t *testing.T) {
	addr := clitest.HeldCluster(t, structs.AllocPending, 1)
	c := &command.Call{
		Command: &command.Command{Flags: command.DetachFlags},
		API:     api.NewClient(api.ClientConfig{Address: addr}),
	}
	var out strings.Builder
	c.Out = &out
	defer c.API.Close()
	stub := &structs.AllocListStub{
		ID:        clitest.Alloc1,
		Namespace: "default",
		Name:      "db.g[0]",
		JobID:     "db",
		TaskGroup: "g",
		NodeID:    clitest.Node1,
	}
	err := New(c).reportClaims(t.Context(), clitest.JobWithVolume(), stub)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "volume data is attaching: Internal: the array is full") {
		t.Errorf("got the output %q", out.String())
	}
}
