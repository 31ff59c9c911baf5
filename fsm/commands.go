package fsm

import (
	"context"
	"fmt"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// This is the one list of commands, with a line for each. An ID never changes and is never used again. A new
// command has the option since, with the version after Version, and so has a new field with its effect.
var (
	NodeRegister = command(1, "NodeRegister", state.NodeRegister, batched,
		sinceField(DevicesSince, nodeHasDevices), sinceField(PortsSince, nodeHasNetworks),
		sinceField(TasksSince, nodeHasHostVolumes),
		sinceField(NetworksSince, nodeHasModes))
	NodeDeregister  = command(2, "NodeDeregister", state.NodeDeregister)
	NodeStatus      = command(3, "NodeStatus", state.NodeStatus, batched)
	NodeEligibility = command(4, "NodeEligibility", state.NodeEligibility)
	NodeUpdateCSI   = command(5, "NodeUpdateCSI", state.NodeUpdateCSI, batched)
	NodeEvents      = command(6, "NodeEvents", state.NodeEvents)
	NodeDrain       = command(8, "NodeDrain", state.NodeDrain, since(PlacementSince))
	NodeDrained     = command(9, "NodeDrained", state.NodeDrained, since(PlacementSince),
		sinceField(PluginsOffSince, drainKeepsPluginsOff))

	JobRegister = command(10, "JobRegister", state.JobRegister, batched,
		sinceField(DevicesSince, jobWantsDevices), sinceField(PortsSince, jobWantsPorts),
		sinceField(TasksSince, jobHasNewFields), sinceField(PlacementSince, jobUsesPlacement),
		sinceField(ServicesSince, jobHasServices), sinceField(NetworksSince, jobWantsNetworks),
		sinceField(ConnectSince, jobHasLaterFields), sinceField(AllAtOnceSince, jobIsAllAtOnce),
		sinceField(RunDurationSince, jobBoundsRuns))
	JobStable     = command(12, "JobStable", state.JobStable, since(PlacementSince))
	JobDeregister = command(11, "JobDeregister", state.JobDeregister,
		sinceField(PlacementSince, deregisterSkipsDelay))
	JobReschedule   = command(16, "JobReschedule", state.JobReschedule, since(PlacementSince))
	JobRevert       = command(15, "JobRevert", state.JobRevert, since(PlacementSince))
	JobDispatch     = command(13, "JobDispatch", state.JobDispatch, since(PlacementSince))
	JobScalingEvent = command(17, "JobScalingEvent", state.JobScalingEvent, since(PlacementSince))
	PeriodicLaunch  = command(14, "PeriodicLaunch", state.JobPeriodicLaunch, since(PlacementSince))

	EvalUpdate = command(20, "EvalUpdate", state.EvalUpdate, batched)
	PlanApply  = command(21, "PlanApply", state.PlanApply, batched,
		sinceField(DevicesSince, planGivesDevices), sinceField(PortsSince, planGivesPorts),
		sinceField(PlacementSince, planUsesPlacement), sinceField(ReturnedPluginsSince, planReturnsPlugins),
		sinceField(StopCausesSince, planHasStopCauses))
	AllocsClientUpdate = command(22, "AllocsClientUpdate", state.AllocsClientUpdate, batched,
		sinceField(PlacementSince, reportsHealth), sinceField(ServicesSince, reportsServices),
		sinceField(NetworksSince, reportsNetworks), sinceField(OwnHealthSince, reportsOwnHealth))
	AllocStop     = command(23, "AllocStop", state.AllocStop, sinceField(PlacementSince, stopSkipsDelay))
	AllocsMigrate = command(25, "AllocsMigrate", state.AllocsMigrate, since(PlacementSince))
	Reap          = command(24, "Reap", state.Reap)

	DeploymentStatus  = command(60, "DeploymentStatus", state.DeploymentStatus, since(PlacementSince))
	DeploymentPromote = command(61, "DeploymentPromote", state.DeploymentPromote, since(PlacementSince))
	DeploymentHealth  = command(62, "DeploymentHealth", state.DeploymentHealth, since(PlacementSince))

	VolumePut         = command(30, "VolumePut", state.VolumePut, batched)
	VolumeDeregister  = command(31, "VolumeDeregister", state.VolumeDeregister, sinceField(3, deregisterSettles))
	VolumeDelete      = command(32, "VolumeDelete", state.VolumeDelete)
	VolumeOutcome     = command(33, "VolumeOutcome", state.VolumeOutcome, batched)
	VolumeClaim       = command(34, "VolumeClaim", state.VolumeClaim, batched)
	VolumeUnpublish   = command(35, "VolumeUnpublish", state.VolumeUnpublish, batched)
	AttachmentOutcome = command(36, "AttachmentOutcome", state.AttachmentOutcome, batched)
	PluginDelete      = command(37, "PluginDelete", state.PluginDelete)
	NodeExpanded      = command(38, "NodeExpanded", state.NodeExpanded, since(2))
	VolumeRetry       = command(39, "VolumeRetry", state.VolumeRetry, since(2))
	AttachmentsFound  = command(55, "AttachmentsFound", state.AttachmentsFound, since(2))
	VolumeForce       = command(50, "VolumeForce", state.VolumeForce, since(2), sinceField(3, forceSettles))
	CallNote          = command(51, "CallNote", state.CallNote, since(2))

	SchedulerConfigSet = command(90, "SchedulerConfigSet", state.SchedulerConfigSet, since(PlacementSince))

	NamespaceApply  = command(70, "NamespaceApply", state.NamespaceApply, since(PlacementSince))
	NamespaceDelete = command(71, "NamespaceDelete", state.NamespaceDelete, since(PlacementSince))
	NodePoolApply   = command(72, "NodePoolApply", state.NodePoolApply, since(PlacementSince))
	NodePoolDelete  = command(73, "NodePoolDelete", state.NodePoolDelete, since(PlacementSince))

	SITokensRegister   = command(80, "SITokensRegister", state.SITokensRegister, batched, since(ConnectSince))
	SITokensGiveUp     = command(81, "SITokensGiveUp", state.SITokensGiveUp, since(ConnectSince))
	SITokensDeregister = command(82, "SITokensDeregister", state.SITokensDeregister, batched,
		since(ConnectSince))

	// Batch is the command that carries entries of other commands.
	Batch = batchCommand{register(&CommandInfo{
		ID:   40,
		Name: "Batch",
	})}
)

// commands lists all commands in the order of their declaration. A server applies no other.
var commands []*CommandInfo

// CommandInfo describes a command without the type of its payload.
type CommandInfo struct {
	ID   uint8
	Name string
	// Since is the version that introduced the command: an older server cannot decode it. It is 0 for the first
	// commands, and for Batch, which is older than versions.
	Since int
	// Batched lets entries share a batch with others (see batch.go).
	Batched bool

	payload func() any // returns a new payload; nil for Batch
	apply   func(tx *state.WriteTx, payload any) error

	later []laterField // in the order of their versions
}

// laterField is a field that a later version than the command introduced: see sinceField.
type laterField struct {
	since int
	isSet func(payload any) bool // reports whether a payload uses it
}

// Command is a type of log entry with a payload of type P.
type Command[P any] struct{ *CommandInfo }

// command declares a command that a state function applies.
func command[P any](
	id uint8, name string,
	apply func(*state.WriteTx, *P) error,
	options ...func(*CommandInfo),
) Command[P] {
	info := &CommandInfo{ID: id, Name: name}
	info.payload = func() any {
		return new(P)
	}
	info.apply = func(tx *state.WriteTx, payload any) error {
		return apply(tx, payload.(*P))
	}
	for _, set := range options {
		set(info)
	}
	return Command[P]{register(info)}
}

func register(c *CommandInfo) *CommandInfo {
	commands = append(commands, c)
	return c
}

// batched is the option of the commands that nodes, the leader, the scheduler and submitters of jobs propose
// by the thousand. A batch could carry every command, but operators propose few.
func batched(c *CommandInfo) {
	c.Batched = true
}

// since is the option of a command that a later version than the first introduced.
func since(version int) func(*CommandInfo) {
	return func(c *CommandInfo) {
		c.Since = version
	}
}

// sinceField is the option of a command whose payload has a field that a later version introduced. Where
// isSet reports true, an older server would ignore the field, and its rows would differ from then on.
func sinceField[P any](version int, isSet func(*P) bool) func(*CommandInfo) {
	return func(c *CommandInfo) {
		c.later = append(c.later, laterField{
			since: version,
			isSet: func(payload any) bool {
				return isSet(payload.(*P))
			},
		})
	}
}

// Needs returns the version that a server needs to apply an entry of the command as this one does.
func (c *CommandInfo) Needs(entry []byte) int {
	needs := c.Since
	if len(c.later) == 0 {
		return needs
	}
	payload := c.payload()
	err := codec.Decode(entry[1:], payload)
	if err != nil {
		return needs
	}
	for _, f := range c.later {
		if f.isSet(payload) {
			needs = f.since
		}
	}
	return needs
}

// newest is the version that knows every payload of the command.
func (c *CommandInfo) newest() int {
	newest := c.Since
	for _, f := range c.later {
		newest = max(newest, f.since)
	}
	return newest
}

// AppliedBy reports whether a server of a version applies an entry of the command as this one does. It
// decodes the entry only if the version decides.
func (c *CommandInfo) AppliedBy(version int, entry []byte) bool {
	return version >= c.newest() || version >= c.Needs(entry)
}

// Version counts how often commands, or fields with an effect, were added. Servers gossip their version. A
// server does not propose an entry that another server of the cluster cannot decode, because that server
// would stop, or whose effect there would differ.
func Version() int {
	newest := 0
	for _, c := range commands {
		newest = max(newest, c.newest())
	}
	return newest
}

// List describes all commands in the order of their declaration. It must not be changed.
func List() []*CommandInfo {
	return commands
}

// unknown represents the commands that this version does not know.
var unknown = &CommandInfo{Name: "an unknown command"}

// CommandOf returns the command of a log entry. A command that this version does not know has no ID.
func CommandOf(entry []byte) *CommandInfo {
	for _, c := range commands {
		if len(entry) > 0 && c.ID == entry[0] {
			return c
		}
	}
	return unknown
}

// Encode writes the log entry: the command's ID, then the payload in msgpack.
func (c Command[P]) Encode(payload *P) ([]byte, error) {
	return c.encode(payload)
}

func (c *CommandInfo) encode(payload any) ([]byte, error) {
	b, err := codec.EncodeAfter([]byte{c.ID}, payload)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", c.Name, err)
	}
	return b, nil
}

// decodeEntry finds the command of a log entry and reads its payload. It returns the command's name and its
// application to a transaction.
func decodeEntry(entry []byte) (string, func(*state.WriteTx) error, error) {
	c := CommandOf(entry)
	switch {
	case len(entry) == 0:
		return "", nil, fmt.Errorf("the entry is empty")
	case c == unknown:
		return "", nil, fmt.Errorf(
			"this version knows no command %d: was the log written by a newer one?", entry[0])
	case c.payload == nil:
		return "", nil, fmt.Errorf("reading the payload of Batch: a batch inside a batch")
	}
	payload := c.payload()
	err := codec.Decode(entry[1:], payload)
	if err != nil {
		return "", nil, fmt.Errorf("reading the payload of %s: %w", c.Name, err)
	}
	return c.Name, func(tx *state.WriteTx) error {
		return c.apply(tx, payload)
	}, nil
}

// Proposer appends to the replicated log. Propose returns the result of FSM.Apply after this server has
// applied the entry. An error is of kind unavailable if the log did not change and another server may lead.
// It is of kind timeout if the outcome is unknown.
type Proposer interface {
	Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error)
}

// Propose executes a command on all servers. The error is that of the proposer or the result of the command.
// A command whose result is an error has changed nothing.
func Propose[P any](
	ctx context.Context,
	p Proposer,
	c Command[P],
	payload *P,
) (index uint64, err error) {
	return propose(ctx, p, c.CommandInfo, payload)
}

// propose is Propose without the type of the payload: its code is in the program once.
func propose(
	ctx context.Context,
	p Proposer,
	c *CommandInfo,
	payload any,
) (index uint64, err error) {
	entry, err := c.encode(payload)
	if err != nil {
		return 0, structs.Internalf("%w", err)
	}
	index, answer, err := p.Propose(ctx, entry)
	if err != nil {
		return index, err
	}
	failed, _ := answer.(error)
	return index, failed
}
