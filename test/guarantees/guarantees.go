// Package guarantees has the properties that the simulation and the chaos run check: see docs/reliability.md.
package guarantees

// Property is the name of a guarantee.
type Property string

// The properties that the simulation checks. The chaos run checks some of them too.
const (
	ExclusiveWriter   Property = "exclusive-writer"
	ClaimedWriter     Property = "claimed-writer"
	LeaseBeforeLoss   Property = "lease-before-loss"
	ProvedRelease     Property = "proved-release"
	ProofOfOneLoss    Property = "proof-of-one-loss"
	WantedFence       Property = "wanted-fence"
	OneFence          Property = "one-fence"
	OneAttachment     Property = "one-attachment"
	DetachedUnmounted Property = "detached-unmounted"
	GrowingEpoch      Property = "growing-epoch"
	ConsistentState   Property = "consistent-state"
	EqualReplay       Property = "equal-replay"
	NothingStuck      Property = "nothing-stuck"
	PacedReplacement  Property = "paced-replacement"
	NeedlessEnd       Property = "needless-end"
)

// LeaseShare bounds NeedlessEnd: a task ends with the lease only if a leader could not be reached within that
// part of it before its end.
const LeaseShare = 2

// The properties that the chaos run alone checks.
const (
	LostRecord   Property = "lost-record"
	NothingLeft  Property = "nothing-left"
	EqualServers Property = "equal-servers"
	NoCrash      Property = "no-crash"
	Access       Property = "access"

	ScheduleGoesOn Property = "schedule-goes-on"
)

// allFaults says that a property holds under each fault of the simulation.
const allFaults = "all faults"

// exceptSleep is allFaults without one case.
const exceptSleep = "all faults, but with `lease` not a machine that is suspended beyond its lease, until its guard has run"

// exceptCopy also excepts the case of ADR 60 in which a guard counts a longer lease than the servers.
const exceptCopy = exceptSleep + ", nor a copy of a machine whose agent is stopped under `berth node lease`"

// chaosFaults says that a property holds under each fault of the chaos run.
const chaosFaults = "all faults of the chaos run"

// All has each property, its guarantee and the faults under which it holds.
var All = []struct {
	Name      Property
	Guarantee string
	Faults    string
}{
	{ExclusiveWriter, "An exclusive volume has at most one task that runs and has it mounted.", exceptCopy},
	{ClaimedWriter, "A task has a volume mounted only while its claim is granted.", exceptSleep},
	{LeaseBeforeLoss, "No node is marked down while it counts its lease, nor before the lease and its grace have " +
		"passed since the servers granted it, and none that is down gets one.", allFaults},
	{ProvedRelease, "A claim of a lost node is released by the node itself, by a fence proof, by the end of its " +
		"lease if the policy is `lease` and the claim is guarded, or by the word of an operator, and by nothing else.", allFaults},
	{ProofOfOneLoss, "Nothing is proved about a node that is not down in the epoch of the proof, and a run of a " +
		"fence agent proves nothing if its node came back after the run had begun.", allFaults},
	{WantedFence, "The servers fence a node by themselves only while somebody waits for a volume of it whose policy is `fence`.", allFaults},
	{OneFence, "At most one fence agent runs at a time, with the default `fence_max_parallel`.", allFaults},
	{OneAttachment, "No exclusive volume is attached to a second node.", allFaults},
	{DetachedUnmounted, "No volume is detached from a machine that has it mounted.", exceptSleep},
	{GrowingEpoch, "A node that was down comes back with a higher epoch.", allFaults},
	{ConsistentState, "The rows and their indexes agree, each five minutes and in the end.", allFaults},
	{EqualReplay, "A second server that applies the same log has the same state, byte for byte.", allFaults},
	{NothingStuck, "An hour after the last fault, at the latest, each job runs, nothing waits, and no machine " +
		"that is gone has a claim.", "the faults have ended, and an operator has confirmed each machine that is gone"},
	{PacedReplacement, "A failed task is replaced at most two minutes and a tenth of its delay before the end of the " +
		"delay, and no evaluation waits for longer than a delay and two minutes.",
		"all faults, but for what has failed before the cluster time followed clocks in one step"},
	{NeedlessEnd, "No task is ended by the end of a lease while its node reached a majority of the servers with a " +
		"leader for half of the lease before.", allFaults},
	{LostRecord, "A record whose write was acknowledged is on the volume.", chaosFaults},
	{NothingLeft, "No process, mount or cgroup stays when all jobs have stopped, or after a loss of power.", chaosFaults},
	{EqualServers, "The lists of all servers are equal.", "the faults of the chaos run have ended"},
	{NoCrash, "No agent ends by itself.", "all faults of the chaos run, but not damaged files of a server"},
	{Access, "No agent answers a caller without a certificate and a token that give the right, and none denies a " +
		"request that has them.", chaosFaults},
	{ScheduleGoesOn, "A periodic job is launched again soon after all clocks are right, whatever time a leader has recorded before.", "the faults of the chaos run have ended"},
}
