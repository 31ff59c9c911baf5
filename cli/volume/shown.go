package volume

import (
	"context"
	"fmt"

	"berth/api"
	"berth/api/nodes"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// Shown is the state on which an operator decides to detach a volume by force: in sentences, and as the
// servers compare it.
type Shown struct {
	structs.DetachShown
	Lines   []string
	Created uint64 // the CreateIndex of the volume
}

// mostShown bounds the allocations that are named in sentences.
const mostShown = 20

// Release names the claims that a forced release is about: the claims of a volume on a node, or one
// allocation's.
type Release struct {
	Volume  string
	NodeID  string
	AllocID string // "" for all
}

// ReadShown reads the state on which a release is decided. A node without a row has the epoch 0.
func ReadShown(ctx context.Context, c *api.Client, r Release) (*Shown, error) {
	v, _, err := volumes.Get(ctx, c, r.Volume, nil)
	if err != nil {
		return nil, err
	}
	shown := &Shown{Created: v.CreateIndex}
	n, _, err := nodes.Get(ctx, c, r.NodeID, nil)
	switch {
	case structs.IsKind(err, structs.KindNotFound):
		shown.line("Node %s has no row any more.", show.ShortID(r.NodeID))
	case err != nil:
		return nil, err
	default:
		shown.Epoch = n.Epoch
		shown.line("Node %s is %s.", n.Name, n.Status)
		if n.Status == structs.NodeDown {
			shown.Lines = append(shown.Lines, show.LostMachine(n, "write no more")...)
		}
	}

	for _, claim := range v.Claims {
		if claim.NodeID != r.NodeID || r.AllocID != "" && claim.AllocID != r.AllocID {
			continue
		}
		shown.Allocs = append(shown.Allocs, claim.AllocID)
		if len(shown.Allocs) <= mostShown {
			shown.line("Allocation %s loses its claim on volume %s there.", show.ShortID(claim.AllocID), v.ID)
		}
	}
	if more := len(shown.Allocs) - mostShown; more > 0 {
		shown.line("%d more allocations lose theirs.", more)
	}
	return shown, nil
}

// onRelease returns a client that is bound to the volume that the command has read. With -force it also
// prints the state on which the release is decided, and binds the release to that.
func onRelease(
	ctx context.Context, c *command.Call, w *watch.Watch, r Release, shown **structs.DetachShown,
) (on *api.Client, err error) {
	if c.Bool("force") {
		on, *shown, err = guardRelease(ctx, c, w, r)
		return on, err
	}
	v, _, err := volumes.Get(ctx, c.API, r.Volume, nil)
	return c.On(v, err)
}

// guardRelease prints the state on which a forced release is decided. It returns a client and a state that
// bind the release to it. A volume without a row has none: the release itself says what is missing.
func guardRelease(
	ctx context.Context, c *command.Call, w *watch.Watch, r Release,
) (*api.Client, *structs.DetachShown, error) {
	shown, err := ReadShown(ctx, c.API, r)
	if structs.IsKind(err, structs.KindNotFound) {
		return c.API, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}

	for _, line := range shown.Lines {
		w.WriteLine("%s", line)
	}
	return c.API.On(shown.Created), &shown.DetachShown, nil
}

func (s *Shown) line(format string, args ...any) {
	s.Lines = append(s.Lines, fmt.Sprintf(format, args...))
}
