package fsm

import (
	"context"
	"fmt"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// The commands. Ids are never changed and never used again.
var (
	NodeRegister    = command(1, "NodeRegister", state.NodeRegister)
	NodeDeregister  = command(2, "NodeDeregister", state.NodeDeregister)
	NodeStatus      = command(3, "NodeStatus", state.NodeStatus)
	NodeEligibility = command(4, "NodeEligibility", state.NodeEligibility)
	NodeUpdateCSI   = command(5, "NodeUpdateCSI", state.NodeUpdateCSI)
	NodeEvents      = command(6, "NodeEvents", state.NodeEvents)
	NodeUpdate      = command(7, "NodeUpdate", state.NodeUpdate)

	JobRegister   = command(10, "JobRegister", state.JobRegister)
	JobDeregister = command(11, "JobDeregister", state.JobDeregister)

	EvalUpdate         = command(20, "EvalUpdate", state.EvalUpdate)
	PlanApply          = command(21, "PlanApply", state.PlanApply)
	AllocsClientUpdate = command(22, "AllocsClientUpdate", state.AllocsClientUpdate)
	AllocStop          = command(23, "AllocStop", state.AllocStop)
	Reap               = command(24, "Reap", state.Reap)

	VolumePut         = command(30, "VolumePut", state.VolumePut)
	VolumeDeregister  = command(31, "VolumeDeregister", state.VolumeDeregister)
	VolumeDelete      = command(32, "VolumeDelete", state.VolumeDelete)
	VolumeOutcome     = command(33, "VolumeOutcome", state.VolumeOutcome)
	VolumeClaim       = command(34, "VolumeClaim", state.VolumeClaim)
	VolumeUnpublish   = command(35, "VolumeUnpublish", state.VolumeUnpublish)
	AttachmentOutcome = command(36, "AttachmentOutcome", state.AttachmentOutcome)
	PluginDelete      = command(37, "PluginDelete", state.PluginDelete)
	NodeExpanded      = command(38, "NodeExpanded", state.NodeExpanded)
	VolumeRetry       = command(39, "VolumeRetry", state.VolumeRetry)
	AttachmentsFound  = command(55, "AttachmentsFound", state.AttachmentsFound)
	VolumeForce       = command(50, "VolumeForce", state.VolumeForce)
	CallNote          = command(51, "CallNote", state.CallNote)
)

// commands is all of them: what is not in it cannot be applied.
var commands = []anyCommand{
	NodeRegister, NodeDeregister, NodeStatus, NodeEligibility, NodeUpdateCSI, NodeEvents, NodeUpdate,
	JobRegister, JobDeregister,
	EvalUpdate, PlanApply, AllocsClientUpdate, AllocStop, Reap,
	VolumePut, VolumeDeregister, VolumeDelete, VolumeOutcome, VolumeClaim, VolumeUnpublish, AttachmentOutcome, PluginDelete,
	NodeExpanded, VolumeRetry,
	AttachmentsFound,
	VolumeForce, CallNote,
	Batch,
}

// Version counts how often commands were added. Servers gossip their version. A server does not propose an
// entry that another server of the cluster cannot decode, because that server would stop.
const Version = 2

// since holds the version that introduced a command, by the ID of the command. A command without an entry is as
// old as the log itself.
var since = map[uint8]int{
	NodeUpdate.ID:   1,
	NodeExpanded.ID: 2, VolumeRetry.ID: 2,
	AttachmentsFound.ID: 2,
	VolumeForce.ID:      2, CallNote.ID: 2,
}

// Needs returns the version that decodes an entry. Batches are older than versions and have their own check.
func Needs(entry []byte) int {
	if len(entry) == 0 {
		return 0
	}
	return since[entry[0]]
}

// Command is a kind of log entry: its id, its payload's type and the state function that carries it out.
type Command[P any] struct {
	ID    uint8
	Name  string
	apply func(*state.WriteTx, *P) error
}

func command[P any](id uint8, name string, apply func(*state.WriteTx, *P) error) Command[P] {
	return Command[P]{id, name, apply}
}

// anyCommand is a command whatever its payload.
type anyCommand interface {
	id() uint8
	name() string
	decode(payload []byte) (func(*state.WriteTx) error, error)
}

func (c Command[P]) id() uint8    { return c.ID }
func (c Command[P]) name() string { return c.Name }

func (c Command[P]) decode(payload []byte) (func(*state.WriteTx) error, error) {
	p := new(P)
	if err := codec.Decode(payload, p); err != nil {
		return nil, err
	}
	return func(tx *state.WriteTx) error { return c.apply(tx, p) }, nil
}

// Encode writes the log entry: the command's id, then the payload in msgpack.
func (c Command[P]) Encode(payload *P) ([]byte, error) {
	b, err := codec.EncodeAfter([]byte{c.ID}, payload)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", c.Name, err)
	}
	return b, nil
}

// decodeEntry finds the command of a log entry and reads its payload.
func decodeEntry(entry []byte) (string, func(*state.WriteTx) error, error) {
	if len(entry) == 0 {
		return "", nil, fmt.Errorf("the entry is empty")
	}
	for _, c := range commands {
		if c.id() == entry[0] {
			apply, err := c.decode(entry[1:])
			if err != nil {
				err = fmt.Errorf("reading the payload of %s: %w", c.name(), err)
			}
			return c.name(), apply, err
		}
	}
	return "", nil, fmt.Errorf("this version knows no command %d: was the log written by a newer one?", entry[0])
}

// Proposer appends to the replicated log. Propose returns when the entry has been applied here, with
// what FSM.Apply returned for it. Its errors: unavailable when nothing was written and the leader may be
// elsewhere, timeout when it is not known whether it was.
type Proposer interface {
	Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error)
}

// Propose carries a command out on all servers. The error is the proposer's or the command's answer; a
// command that answered with an error changed nothing.
func Propose[P any](ctx context.Context, p Proposer, c Command[P], payload *P) (index uint64, err error) {
	entry, err := c.Encode(payload)
	if err != nil {
		return 0, structs.Errorf(structs.KindInternal, "%w", err)
	}
	index, answer, err := p.Propose(ctx, entry)
	if err != nil {
		return index, err
	}
	if failed, ok := answer.(error); ok {
		return index, failed
	}
	return index, nil
}
