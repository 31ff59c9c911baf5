package fsm

import (
	"context"
	"fmt"
	"sync"

	"berth/internal/codec"
	"berth/internal/level"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/lease"
	"berth/state/namespace"
	"berth/state/trust"
	"berth/structs"
)

// This is the one list of commands, with a line for each. An ID never changes and is never used again. A
// command that is newer than the first release has the option since, with the level of its release. A newer
// field of a payload names its level in its tag (see package level).
var (
	NodeRegister    = command(1, "NodeRegister", state.NodeRegister, batched)
	NodeDeregister  = command(2, "NodeDeregister", state.NodeDeregister)
	NodeStatus      = command(3, "NodeStatus", state.NodeStatus, batched)
	NodeEligibility = command(4, "NodeEligibility", state.NodeEligibility)
	NodeUpdateCSI   = command(5, "NodeUpdateCSI", state.NodeUpdateCSI, batched)
	NodeEvents      = command(6, "NodeEvents", state.NodeEvents)
	NodeDrain       = command(8, "NodeDrain", state.NodeDrain)
	NodeDrained     = command(9, "NodeDrained", state.NodeDrained)
	NodeLeave       = command(105, "NodeLeave", state.NodeLeave)
	NodeLeftovers   = command(203, "NodeLeftovers", state.NodeLeftovers)

	JobRegister     = command(10, "JobRegister", state.JobRegister, batched)
	JobStable       = command(12, "JobStable", state.JobStable)
	JobDeregister   = command(11, "JobDeregister", state.JobDeregister)
	JobReschedule   = command(16, "JobReschedule", state.JobReschedule)
	JobRevert       = command(15, "JobRevert", state.JobRevert)
	JobDispatch     = command(13, "JobDispatch", state.JobDispatch)
	JobTag          = command(143, "JobTag", state.JobTag)
	JobUntag        = command(144, "JobUntag", state.JobUntag)
	ServiceDelete   = command(177, "ServiceDelete", state.ServiceDelete)
	JobScalingEvent = command(17, "JobScalingEvent", state.JobScalingEvent)
	PeriodicLaunch  = command(14, "PeriodicLaunch", state.JobPeriodicLaunch)

	EvalUpdate         = command(20, "EvalUpdate", state.EvalUpdate, batched)
	PlanApply          = command(21, "PlanApply", state.PlanApply, batched)
	AllocsClientUpdate = command(22, "AllocsClientUpdate", state.AllocsClientUpdate, batched)
	AllocStop          = command(23, "AllocStop", state.AllocStop)
	AllocsMigrate      = command(25, "AllocsMigrate", state.AllocsMigrate)
	Reap               = command(24, "Reap", state.Reap)

	DeploymentStatus  = command(60, "DeploymentStatus", state.DeploymentStatus)
	DeploymentPromote = command(61, "DeploymentPromote", state.DeploymentPromote)
	DeploymentHealth  = command(62, "DeploymentHealth", state.DeploymentHealth)

	VolumePut         = command(30, "VolumePut", csi.VolumePut, batched)
	VolumeDeregister  = command(31, "VolumeDeregister", csi.VolumeDeregister)
	VolumeDelete      = command(32, "VolumeDelete", csi.VolumeDelete)
	VolumeOutcome     = command(33, "VolumeOutcome", state.VolumeOutcome, batched)
	VolumeClaim       = command(34, "VolumeClaim", csi.VolumeClaim, batched)
	VolumeUnpublish   = command(35, "VolumeUnpublish", state.VolumeUnpublish, batched)
	AttachmentOutcome = command(36, "AttachmentOutcome", csi.AttachmentOutcome, batched)
	PluginDelete      = command(37, "PluginDelete", csi.PluginDelete)
	NodeExpanded      = command(38, "NodeExpanded", csi.NodeExpanded)
	VolumeRetry       = command(39, "VolumeRetry", csi.VolumeRetry)
	VolumeLabel       = command(204, "VolumeLabel", csi.VolumeLabel)
	AttachmentsFound  = command(55, "AttachmentsFound", state.AttachmentsFound)
	VolumeForce       = command(50, "VolumeForce", state.VolumeForce)
	CallNote          = command(51, "CallNote", csi.CallNote)
	SecretsSeal       = command(120, "SecretsSeal", trust.SecretsSeal)
	SecretsSealed     = command(121, "SecretsSealed", trust.SecretsSealed)

	SchedulerConfigSet = command(90, "SchedulerConfigSet", state.SchedulerConfigSet)
	LeaseBoundSet      = command(91, "LeaseBoundSet", lease.LeaseBoundSet)
	NodeLeaseSet       = command(110, "NodeLeaseSet", lease.NodeLeaseSet)
	AutopilotConfigSet = command(95, "AutopilotConfigSet", state.AutopilotConfigSet)
	ClusterTimeSet     = command(200, "ClusterTimeSet", clustertime.Put)

	FenceBegin   = command(92, "FenceBegin", state.FenceBegin)
	FenceEnd     = command(93, "FenceEnd", state.FenceEnd)
	FenceOrdered = command(94, "FenceOrdered", state.FenceOrdered)
	FencePins    = command(202, "FencePins", state.FencePinsChange)
	ConfirmLost  = command(96, "ConfirmLost", state.ConfirmLost)
	LeaseProof   = command(106, "LeaseProof", state.LeaseProof)

	PluginConfigSet = command(107, "PluginConfigSet", csi.PluginConfigSet)

	RootKeyAdd            = command(114, "RootKeyAdd", trust.RootKeyAdd)
	RootKeyRekeyed        = command(115, "RootKeyRekeyed", trust.RootKeyRekeyed)
	RootKeyRemove         = command(116, "RootKeyRemove", trust.RootKeyRemove)
	Reseal                = command(117, "Reseal", trust.Reseal)
	VariablePut           = command(123, "VariablePut", state.VariablePut)
	VariableDelete        = command(124, "VariableDelete", state.VariableDelete)
	VariableLock          = command(125, "VariableLock", state.VariableLock)
	VariableUnlock        = command(126, "VariableUnlock", state.VariableUnlock)
	VariableLockExpire    = command(127, "VariableLockExpire", state.VariableLockExpire)
	AuthoritySet          = command(128, "AuthoritySet", trust.AuthoritySet)
	JoinTokenPut          = command(129, "JoinTokenPut", trust.JoinTokenPut)
	JoinTokenDelete       = command(130, "JoinTokenDelete", trust.JoinTokenDelete)
	MachineCertificateSet = command(131, "MachineCertificateSet", trust.MachineCertificateSet)
	Revoke                = command(136, "Revoke", trust.Revoke)
	Unrevoke              = command(137, "Unrevoke", trust.Unrevoke)
	AuthorityRemove       = command(139, "AuthorityRemove", trust.AuthorityRemove)
	RootKeyRewrap         = command(145, "RootKeyRewrap", trust.RootKeyRewrap)

	ACLBootstrap    = command(148, "ACLBootstrap", state.ACLBootstrap)
	ACLMode         = command(195, "ACLMode", state.ACLModeChange)
	ACLPolicyPut    = command(149, "ACLPolicyPut", state.PolicyPut)
	ACLPolicyDelete = command(150, "ACLPolicyDelete", state.PolicyDelete)
	ACLRolePut      = command(151, "ACLRolePut", state.RolePut)
	ACLRoleDelete   = command(152, "ACLRoleDelete", state.RoleDelete)
	ACLTokenPut     = command(153, "ACLTokenPut", state.TokenPut)
	ACLTokenDelete  = command(154, "ACLTokenDelete", state.TokenDelete)
	ACLTokensExpire = command(155, "ACLTokensExpire", state.TokensExpire)

	SigningKeyAdd      = command(160, "SigningKeyAdd", trust.SigningKeyAdd)
	SigningKeyActivate = command(161, "SigningKeyActivate", trust.SigningKeyActivate)
	SigningKeyRemove   = command(162, "SigningKeyRemove", trust.SigningKeyRemove)
	QuotaPut           = command(170, "QuotaPut", namespace.QuotaPut)
	QuotaDelete        = command(171, "QuotaDelete", namespace.QuotaDelete)

	AdmissionRulePut     = command(174, "AdmissionRulePut", state.AdmissionRulePut)
	AdmissionRuleDelete  = command(175, "AdmissionRuleDelete", state.AdmissionRuleDelete)
	ACLAuthMethodPut     = command(164, "ACLAuthMethodPut", state.AuthMethodPut)
	ACLAuthMethodDelete  = command(165, "ACLAuthMethodDelete", state.AuthMethodDelete)
	ACLBindingRulePut    = command(166, "ACLBindingRulePut", state.BindingRulePut)
	ACLBindingRuleDelete = command(167, "ACLBindingRuleDelete", state.BindingRuleDelete)
	ACLLogin             = command(168, "ACLLogin", state.Login)
	ACLOneTime           = command(169, "ACLOneTime", state.OneTimeTokenChange)

	VolumeClassPut    = command(178, "VolumeClassPut", csi.ClassPut)
	VolumeClassDelete = command(179, "VolumeClassDelete", csi.ClassDelete)
	VolumeUndelete    = command(138, "VolumeUndelete", csi.VolumeUndelete)
	VolumeSpace       = command(194, "VolumeSpace", csi.VolumeSpace)
	VolumeReclaim     = command(140, "VolumeReclaim", csi.VolumeReclaim)
	VolumeGrow        = command(141, "VolumeGrow", csi.VolumeGrow)

	SnapshotPut     = command(180, "SnapshotPut", snapshot.Put)
	SnapshotDelete  = command(181, "SnapshotDelete", snapshot.Delete)
	SnapshotNote    = command(182, "SnapshotNote", snapshot.Note)
	DriftRecord     = command(184, "DriftRecord", csi.DriftRecord)
	DriftRepair     = command(185, "DriftRepair", csi.DriftRepair)
	HealthRecord    = command(176, "HealthRecord", csi.HealthRecord)
	SnapshotOutcome = command(183, "SnapshotOutcome", snapshot.Outcome)

	SnapshotGroupPut     = command(147, "SnapshotGroupPut", snapshot.GroupPut)
	SnapshotGroupDelete  = command(163, "SnapshotGroupDelete", snapshot.GroupDelete)
	SnapshotGroupNote    = command(172, "SnapshotGroupNote", snapshot.GroupNote)
	SnapshotGroupOutcome = command(173, "SnapshotGroupOutcome", snapshot.GroupOutcome)

	SnapshotSchedulePut    = command(188, "SnapshotSchedulePut", snapshot.SchedulePut)
	SnapshotScheduleDelete = command(189, "SnapshotScheduleDelete", snapshot.ScheduleDelete)
	SnapshotScheduleRun    = command(190, "SnapshotScheduleRun", snapshot.ScheduleRun)
	SnapshotSchedulePause  = command(191, "SnapshotSchedulePause", snapshot.SchedulePause)
	HostVolumeClaimDelete  = command(142, "HostVolumeClaimDelete", csi.HostVolumeClaimDelete)

	NamespaceApply  = command(70, "NamespaceApply", namespace.Apply)
	NamespaceDelete = command(71, "NamespaceDelete", namespace.Delete)
	NodePoolApply   = command(72, "NodePoolApply", state.NodePoolApply)
	NodePoolDelete  = command(73, "NodePoolDelete", state.NodePoolDelete)

	SITokensRegister   = command(80, "SITokensRegister", trust.SITokensRegister, batched)
	SITokensGiveUp     = command(81, "SITokensGiveUp", trust.SITokensGiveUp)
	SITokensDeregister = command(82, "SITokensDeregister", trust.SITokensDeregister, batched)

	// Batch is the command that carries entries of other commands.
	Batch = batchCommand{register(&CommandInfo{
		ID:    40,
		Name:  "Batch",
		Level: level.First,
	})}
)

// commands lists all commands in the order of their declaration. A server applies no other.
var commands []*CommandInfo

// CommandInfo describes a command without the type of its payload.
type CommandInfo struct {
	ID   uint8
	Name string
	// Level is the level that a server needs to apply the command: one of a lower level cannot decode it.
	Level int
	// Batched lets entries share a batch with others (see batch.go).
	Batched bool

	// Payload returns a new payload. It is nil for Batch.
	Payload func() any

	apply  func(tx *state.WriteTx, payload any) error
	fields func() int // returns the highest level that a field of the payload names
	// created returns the CreateIndex of the row that the payload names, 0 for none. It is nil for a command
	// without a guard.
	created func(tx *state.WriteTx, payload any) uint64
}

// Command is a type of log entry with a payload of type P.
type Command[P any] struct{ *CommandInfo }

// command declares a command that a state function applies.
func command[P any](
	id uint8, name string,
	apply func(*state.WriteTx, *P) error,
	options ...func(*CommandInfo),
) Command[P] {
	info := &CommandInfo{
		ID:    id,
		Name:  name,
		Level: level.First,
	}

	info.Payload = func() any {
		return new(P)
	}
	info.fields = levelOnce(info.Payload)
	info.apply = func(tx *state.WriteTx, payload any) error {
		err := info.checkCreated(tx, payload)
		if err != nil {
			return err
		}
		return apply(tx, payload.(*P))
	}
	for _, set := range options {
		set(info)
	}

	return Command[P]{register(info)}
}

// levelOnce returns the highest level of the fields of a payload. It finds it at the first call, because each
// run of a command line would otherwise walk all payloads. The compiler would inline it for each payload.
//
//go:noinline
func levelOnce(payload func() any) func() int {
	return sync.OnceValue(func() int { return level.Highest(payload()) })
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

// since is the option of a command that is newer than the first release.
func since(of int) func(*CommandInfo) {
	return func(c *CommandInfo) {
		c.Level = of
	}
}

// FitLevel makes an entry one that a server of the least level among all servers applies as this one does: it
// empties the newer fields of the payload that may be dropped (see level.Fit). The error, of kind
// precondition, names the command or a field that such a server does not know. The entry is decoded only if
// its payload may have such a field.
func FitLevel(entry []byte, least int) ([]byte, error) {
	c := CommandOf(entry)
	switch {
	case c.Level > least:
		return nil, level.Missing("the command "+c.Name, c.Level, least)
	case c.Payload == nil, c.fields() <= least:
		return entry, nil
	}
	payload := c.Payload()
	err := codec.Decode(entry[1:], payload)
	if err != nil {
		return nil, structs.Internalf("reading the payload of %s: %w", c.Name, err)
	}
	newer := len(level.Above(payload, least)) > 0
	err = level.Fit(payload, least)
	if err != nil || !newer {
		return entry, err
	}
	return c.encode(payload)
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

// Proposer appends to the replicated log. Propose returns the result of FSM.Apply after this server has
// applied the entry. An error is of kind unavailable if the log did not change and another server may lead.
// It is of kind timeout if the outcome is unknown.
type Proposer interface {
	Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error)
}

type beforeKey struct{}

// Before returns a context whose proposals first call a function. Propose returns its error, and then
// proposes nothing.
func Before(ctx context.Context, do func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeKey{}, do)
}

// Propose executes a command on all servers. The error is the proposer's or the result of the command. A
// command whose result is an error has changed nothing.
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
	before, ok := ctx.Value(beforeKey{}).(func(context.Context) error)
	if ok {
		err := before(ctx)
		if err != nil {
			return 0, err
		}
	}
	index, answer, err := p.Propose(ctx, entry)
	if err != nil {
		return index, err
	}
	failed, _ := answer.(error)
	return index, failed
}
