// Package actions has the actions of the page: each does what a command does, with its words.
package actions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/api"
	"berth/api/allocs"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/alloc"
	"berth/cli/command"
	"berth/cli/job"
	"berth/cli/node"
	"berth/cli/volume"
	"berth/structs"
	"berth/ui/views"
)

// drainDeadline is the deadline of a drain by the page, the default of the command line.
const drainDeadline = time.Hour

// Target is the thing on which an action acts.
type Target struct {
	Namespace string
	ID        string
	NodeID    string // of a detach
	// Reason is how the caller knows what they assert, and By says where they have asserted it.
	Reason string
	By     string
	// Created is the CreateIndex of the row that the caller has seen.
	Created uint64
	// Epoch is that of the loss of a node of which the caller was told, and Allocs are the allocations on it
	// that the caller was shown.
	Epoch  uint64
	Allocs []string
}

// Shown is what a confirmation tells about a thing, and which states of it the form then names.
type Shown struct {
	Notes  []string
	Epoch  uint64   // of the loss of a node
	Allocs []string // that lose a volume
}

// Action changes a thing as a command does. The page shows the words of the command before it acts.
type Action struct {
	Name    string // in addresses
	Title   string // of the link and the button
	Command *command.Command
	Line    func(Target) string // the command on the command line
	Back    string              // the path of the view of the thing
	// Gone: there is no such thing after the action.
	Gone bool
	// Reasons, if there are any, are what the caller may assert: an action with them needs one, or other words.
	Reasons []string
	// Destroys: the action is rejected unless it names the row that the caller has seen, because another one
	// can have its name by then.
	Destroys bool
	// Notes, if not nil, tells what the action concerns.
	Notes func(context.Context, *api.Client, Target) (*Shown, error)
	Run   func(context.Context, *api.Client, Target) error
}

// Find returns the action with a name, nil for none.
func Find(name string) *Action {
	for i, a := range All {
		if a.Name == name {
			return &All[i]
		}
	}
	return nil
}

// The assertions that the page has words for.
var (
	offReasons = []string{
		"I have cut its power",
		"I have seen that it is off",
		"the provider reports that it is stopped or deleted",
	}
	detachedReasons = []string{
		"the storage system shows that it is detached",
		"the machine is off",
		"the machine is deleted",
	}
)

// describeLoss tells which machine has to be off for a word about a lost node, and what the word releases.
func describeLoss(ctx context.Context, c *api.Client, t Target) (*Shown, error) {
	shown, err := describeClaims(ctx, c, t)
	if err != nil {
		return nil, err
	}
	n, _, err := nodes.Get(ctx, c, t.ID, nil)
	if err != nil {
		return nil, err
	}
	shown.Notes = slices.Insert(shown.Notes, 1, show.LostMachine(n, "be off")...)
	return shown, nil
}

// describeClaims tells which claims of a lost node are released. Only one that is down is lost.
func describeClaims(ctx context.Context, c *api.Client, t Target) (*Shown, error) {
	s, _, err := nodes.FenceStatus(ctx, c, t.ID, nil)
	if err != nil {
		return nil, err
	}
	if s.Status != structs.NodeDown {
		return nil, structs.Preconditionf("node %s is %s: its lease and grace have not ended", s.Name, s.Status)
	}
	shown := &Shown{Epoch: s.Epoch}
	shown.note("Node %s is down. It has %s on volumes.", s.Name, show.Plural(len(s.Claims), "claim"))
	for i, l := range s.Claims {
		if i == mostNotes {
			shown.note("%d more claims.", len(s.Claims)-i)
			break
		}
		shown.note("Volume %s of namespace %s is released: allocation %s of job %s has it.",
			l.VolumeID, l.Namespace, show.ShortID(l.AllocID), l.JobID)
	}
	return shown, nil
}

func (s *Shown) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// describeFence tells what a fence releases. It rejects a node that no device fences, as the servers would.
func describeFence(ctx context.Context, c *api.Client, t Target) (*Shown, error) {
	shown, err := describeClaims(ctx, c, t)
	if err != nil {
		return nil, err
	}
	fenceable, err := Fenceable(ctx, c, t.ID)
	if err == nil && !fenceable {
		err = structs.Preconditionf("no fence device of the servers matches the node and covers its volumes; "+
			"if the machine is off: %s", views.ConfirmLine(t.ID))
	}
	return shown, err
}

// describeDetach tells which allocations a forced detach takes the volume from.
func describeDetach(ctx context.Context, c *api.Client, t Target) (*Shown, error) {
	state, err := volume.ReadShown(ctx, c, volume.Release{Volume: t.ID, NodeID: t.NodeID})
	if err != nil {
		return nil, err
	}
	shown := &Shown{Notes: state.Lines, Epoch: state.Epoch, Allocs: state.Allocs}
	return shown, nil
}

// Fenceable reports whether the servers have a device that fences a node.
func Fenceable(ctx context.Context, c *api.Client, nodeID string) (bool, error) {
	s, _, err := nodes.FenceStatus(ctx, c, nodeID, nil)
	if err != nil {
		return false, err
	}
	return s.Fenceable(), nil
}

// mostNotes bounds the claims that a confirmation names.
const mostNotes = 20

// All are the actions of the page.
var All = []Action{
	{
		Name: "drain", Title: "Drain", Back: views.NodePath,
		Command: command.Find(node.Commands, "drain"),
		Line:    func(t Target) string { return structs.CommandLine("", "node drain", "-enable", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.Drain(ctx, c, t.ID, nodes.DrainOrder{DrainSpec: &structs.DrainSpec{Deadline: drainDeadline}})
		},
	},
	{
		Name: "undrain", Title: "Cancel the drain", Back: views.NodePath,
		Command: command.Find(node.Commands, "drain"),
		Line:    func(t Target) string { return structs.CommandLine("", "node drain", "-disable", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.Drain(ctx, c, t.ID, nodes.DrainOrder{MarkEligible: true})
		},
	},
	{
		Name: "ineligible", Title: "Forbid placements", Back: views.NodePath,
		Command: command.Find(node.Commands, "eligibility"),
		Line:    func(t Target) string { return structs.CommandLine("", "node eligibility", "-disable", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.SetEligibility(ctx, c, t.ID, false)
		},
	},
	{
		Name: "eligible", Title: "Allow placements", Back: views.NodePath,
		Command: command.Find(node.Commands, "eligibility"),
		Line:    func(t Target) string { return structs.CommandLine("", "node eligibility", "-enable", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.SetEligibility(ctx, c, t.ID, true)
		},
	},
	{
		Name: "stop-job", Title: "Stop", Back: views.JobPath, Destroys: true,
		Command: command.Find(job.Commands, "stop"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "job stop", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := jobs.Deregister(ctx, c.On(t.Created), t.ID, jobs.DeregisterOptions{})
			return err
		},
	},
	{
		Name: "restart", Title: "Restart the tasks", Back: views.AllocPath,
		Command: command.Find(alloc.Commands, "restart"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "alloc restart", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return allocs.Restart(ctx, c, t.ID, api.AllocRestartRequest{})
		},
	},
	{
		Name: "stop-alloc", Title: "Stop and replace", Back: views.AllocPath,
		Command: command.Find(alloc.Commands, "stop"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "alloc stop", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := allocs.Stop(ctx, c, t.ID, allocs.StopOptions{})
			return err
		},
	},
	{
		Name: "detach", Title: "Detach", Back: views.VolumePath,
		Command: command.Find(volume.Commands, "detach"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "volume detach", t.ID, t.NodeID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := volumes.Detach(ctx, c, t.ID, volumes.DetachOptions{NodeID: t.NodeID})
			return err
		},
	},
	{
		Name: "delete", Title: "Delete with its data", Back: views.VolumePath, Destroys: true,
		Command: command.Find(volume.Commands, "delete"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "volume delete", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return volumes.Delete(ctx, c.On(t.Created), t.ID, volumes.Deletion{})
		},
	},
	{
		Name: "undelete", Title: "Keep", Back: views.VolumePath,
		Command: command.Find(volume.Commands, "undelete"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "volume undelete", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return volumes.Undelete(ctx, c, t.ID)
		},
	},
	{
		Name: "confirm-lost", Title: "Confirm that the machine is off", Back: views.NodePath,
		Command: command.Find(node.Commands, "confirm-lost"), Reasons: offReasons, Notes: describeLoss,
		Line: func(t Target) string { return views.ConfirmLine(t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.ConfirmLost(ctx, c, t.ID, nodes.FenceOrder{Epoch: t.Epoch, By: t.By, Why: t.Reason})
		},
	},
	{
		Name: "fence", Title: "Fence", Back: views.NodePath,
		Command: command.Find(node.Commands, "fence"), Notes: describeFence,
		Line: func(t Target) string { return structs.CommandLine("", "node fence", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.Fence(ctx, c, t.ID, nodes.FenceOrder{Epoch: t.Epoch, By: t.By})
		},
	},
	{
		Name: "purge", Title: "Delete the node", Back: views.NodePath, Gone: true, Destroys: true,
		Command: command.Find(node.Commands, "purge"),
		Line:    func(t Target) string { return structs.CommandLine("", "node purge", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			return nodes.Purge(ctx, c.On(t.Created), t.ID)
		},
	},
	{
		Name: "eval", Title: "Evaluate again", Back: views.JobPath,
		Command: command.Find(job.Commands, "eval"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "job eval", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := jobs.Evaluate(ctx, c, t.ID, false)
			return err
		},
	},
	{
		Name: "reschedule", Title: "Replace failed allocations", Back: views.JobPath,
		Command: command.Find(job.Commands, "eval"),
		Line: func(t Target) string {
			return structs.CommandLine(t.Namespace, "job eval -force-reschedule", t.ID)
		},
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := jobs.Evaluate(ctx, c, t.ID, true)
			return err
		},
	},
	{
		Name: "retry", Title: "Retry", Back: views.VolumePath,
		Command: command.Find(volume.Commands, "retry"),
		Line:    func(t Target) string { return structs.CommandLine(t.Namespace, "volume retry", t.ID) },
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := volumes.Retry(ctx, c, t.ID)
			return err
		},
	},
	{
		Name: "force-detach", Title: "Detach by force", Back: views.VolumePath, Destroys: true,
		Command: command.Find(volume.Commands, "detach"), Reasons: detachedReasons, Notes: describeDetach,
		Line: func(t Target) string {
			return structs.CommandLine(t.Namespace, `volume detach -force -reason "..."`, t.ID, t.NodeID)
		},
		Run: func(ctx context.Context, c *api.Client, t Target) error {
			_, err := volumes.Detach(ctx, c.On(t.Created), t.ID, volumes.DetachOptions{
				NodeID: t.NodeID,
				Force:  true,
				Reason: t.Reason,
				By:     t.By,
				Shown:  &structs.DetachShown{Epoch: t.Epoch, Allocs: t.Allocs},
			})
			return err
		},
	},
}
