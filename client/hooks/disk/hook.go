package disk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// longestChain bounds the predecessors that are tried: each has ended before it took over the data.
const longestChain = 32

// Local is an allocation on this node.
type Local struct {
	Alloc   *structs.Allocation // with its job
	Dir     string
	Unwound <-chan struct{} // closed: its tasks are dead, and everything of it is released
}

// Config has the parts of the node that the hook uses.
type Config struct {
	NodeID   string
	SecretID string
	Region   string
	Servers  rpc.Caller
	// ServersBack, if not nil, is announced when the servers can be reached again after a cut.
	ServersBack *backoff.Recovery
	Logger      hclog.Logger
	// Complete is closed when Local knows all allocations of this node, also an earlier agent's whose records
	// are lost.
	Complete <-chan struct{}
	// Local finds an allocation on this node.
	Local func(allocID string) (Local, bool)
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
	// Report adds an event to the tasks of an allocation.
	Report func(allocID, message string)
	// Settings returns the bounds of data from other nodes. They may change.
	Settings func() Settings
}

type disk struct {
	Config
	env *hooks.AllocEnv
}

// New makes the hook of an allocation. It is nil for one that takes over no data.
func New(env *hooks.AllocEnv, c Config) hooks.Alloc {
	if env.Alloc.PreviousAllocation == "" || !Sticky(env.Group) {
		return nil
	}
	return &disk{c, env}
}

func (d *disk) Name() string { return "disk" }

// staysError is the reason for which data stays where it is.
type staysError struct{ reason string }

func (e *staysError) Error() string { return e.reason }

func stays(format string, args ...any) error {
	return &staysError{fmt.Sprintf(format, args...)}
}

// waitError is the reason for which data cannot come now. It stays where it is, and the allocation waits.
type waitError struct{ reason string }

func (e *waitError) Error() string { return e.reason }

func waits(format string, args ...any) error {
	return &waitError{fmt.Sprintf(format, args...)}
}

// Up takes over the data of the previous allocation, once. With an error it may be repeated.
func (d *disk) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if Waits(env.Alloc, env.Dir) == "" {
		return nil
	}

	// Before that, the data of an allocation that is here may seem to be on another node.
	select {
	case <-d.Complete:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer d.Progress(env.Alloc.ID, "")

	err := d.takeOver(ctx)
	var left *staysError
	if errors.As(err, &left) {
		d.Logger.Warn("allocation starts with an empty disk",
			"alloc_id", env.Alloc.ID, "previous_alloc", env.Alloc.PreviousAllocation, "error", err)
		d.Report(env.Alloc.ID, "Starts with an empty disk: "+left.reason)
		err = nil
	}
	if err != nil {
		return err
	}

	// After a crash before this mark the renames are repeated, and done ones change nothing.
	return finish(env.Dir)
}

// Down has nothing to undo: the data belongs to the allocation, and goes on to the next one.
func (d *disk) Down(context.Context) error { return nil }

// takeOver takes over the data of the nearest predecessor that has it.
func (d *disk) takeOver(ctx context.Context) error {
	whole := filepath.Join(d.env.Dir, ownDir, wholeName)
	// An earlier agent has fetched all of it, and may have moved a part into its place.
	if exists(whole) {
		return moveDirs(whole, d.env.Dir, dataDirs(d.env.Group))
	}
	from := d.env.Alloc.PreviousAllocation
	for range longestChain {
		next, err := d.takeFrom(ctx, from)
		if err != nil || next == "" {
			return err
		}
		from = next
	}
	return structs.Preconditionf(
		"more than %d allocations before this one have not taken over the data, either", longestChain)
}

// takeFrom takes over the data of an allocation. It returns another one which has that data instead.
func (d *disk) takeFrom(ctx context.Context, from string) (instead string, err error) {
	local, here := d.Local(from)
	switch {
	case here:
	case !d.env.Group.EphemeralDisk.Migrate:
		return "", stays("the data of allocation %s is on another node, and ephemeral_disk does not migrate",
			from)
	default:
		return d.fetch(ctx, from)
	}

	d.Progress(d.env.Alloc.ID,
		fmt.Sprintf("waits for the end of allocation %s, whose data it takes over", from))
	err = awaitUnwound(ctx, local)
	if err == nil {
		// It may have ended before it took over its own data.
		instead, err = d.settle(ctx, local, longestChain)
	}

	if err != nil || instead != "" {
		return instead, err
	}

	return "", moveDirs(local.Dir, d.env.Dir, dataDirs(d.env.Group))
}

// awaitUnwound waits until nothing of an allocation uses its directory any more.
func awaitUnwound(ctx context.Context, a Local) error {
	select {
	case <-a.Unwound:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle gives an ended allocation of this node the data that it has not taken over itself. It returns the
// allocation that has the data, if that one is not on this node.
func (c Config) settle(ctx context.Context, a Local, most int) (elsewhere string, err error) {
	previous := Waits(a.Alloc, a.Dir)
	if previous == "" {
		return "", nil
	}

	// Data that came whole from another node takes the place of the predecessor's.
	source := filepath.Join(a.Dir, ownDir, wholeName)
	if !exists(source) {
		local, here := c.Local(previous)
		// most bounds the recursion if allocations name each other.
		if !here || most == 0 {
			return previous, nil
		}

		err = awaitUnwound(ctx, local)
		if err == nil {
			elsewhere, err = c.settle(ctx, local, most-1)
		}

		if err != nil || elsewhere != "" {
			return elsewhere, err
		}

		source = local.Dir
	}

	err = moveDirs(source, a.Dir, dataDirs(a.Alloc.Job.Group(a.Alloc.TaskGroup)))
	if err != nil {
		return "", err
	}

	return "", finish(a.Dir)
}
