package nodeconn

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
)

// timedCaller notes how long a call may take.
type timedCaller struct{ left time.Duration }

func (c *timedCaller) Call(ctx context.Context, _, _ string, _, _ any) error {
	deadline, _ := ctx.Deadline()
	c.left = time.Until(deadline)
	return nil
}

// TestCall_WaitsForTheEndOfThePluginsCall: the answer of the node comes after it, and before the outcome
// counts as settled. A request without a timeout has the limit of its target.
func TestCall_WaitsForTheEndOfThePluginsCall(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0:                7 * time.Second,
		-time.Second:     7 * time.Second,
		10 * time.Second: 40 * time.Second,
		4 * time.Minute:  4*time.Minute + 30*time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			nodes := &timedCaller{}
			req := &nodecalls.ClientCSIDeleteRequest{}
			req.SetTimeout(timeout)
			_, err := Call(t.Context(), Target{nodes, []string{"n1"}, 7 * time.Second},
				nodecalls.ClientCSIControllerDelete, req)
			if err != nil || nodes.left != want || nodes.left >= structs.CallSettles {
				t.Errorf("with a timeout of %s the server waits %s, want %s; %v", timeout, nodes.left, want, err)
			}
		})
	}
}
