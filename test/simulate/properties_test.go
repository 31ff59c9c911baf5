package simulate

// property is a guarantee that the simulation checks.
type property string

const (
	exclusiveWriter   property = "exclusive-writer"
	claimedWriter     property = "claimed-writer"
	leaseBeforeLoss   property = "lease-before-loss"
	provedRelease     property = "proved-release"
	proofOfOneLoss    property = "proof-of-one-loss"
	oneFence          property = "one-fence"
	oneAttachment     property = "one-attachment"
	detachedUnmounted property = "detached-unmounted"
	growingEpoch      property = "growing-epoch"
	consistentState   property = "consistent-state"
	equalReplay       property = "equal-replay"
	nothingStuck      property = "nothing-stuck"
)

// allFaults says that a property holds under each fault of faults.
const allFaults = "all faults"

// exceptSleep is allFaults without one case.
const exceptSleep = "all faults, but with `lease` not a machine that is suspended beyond its lease, until its " +
	"guard has run"

// properties has each property, its guarantee and the faults under which it holds: see docs/reliability.md.
var properties = []struct {
	name      property
	guarantee string
	faults    string
}{
	{exclusiveWriter, "An exclusive volume has at most one task that runs and has it mounted.", exceptSleep},
	{claimedWriter, "A task has a volume mounted only while its claim is granted.", exceptSleep},
	{leaseBeforeLoss, "No node is marked down while it counts its lease, and none that is down gets one.", allFaults},
	{provedRelease, "A claim of a lost node is released by the node itself, by a fence proof that its policy " +
		"or an operator allows, by the end of its lease if the policy is `lease` and the claim is guarded, or by " +
		"the word of an operator, and by nothing else.", allFaults},
	{proofOfOneLoss, "A run of a fence agent proves nothing if its node came back after the run had begun.", allFaults},
	{oneFence, "At most one fence agent runs at a time, with the default `fence_max_parallel`.", allFaults},
	{oneAttachment, "No exclusive volume is attached to a second node.", allFaults},
	{detachedUnmounted, "No volume is detached from a machine that has it mounted.", exceptSleep},
	{growingEpoch, "A node that was down comes back with a higher epoch.", allFaults},
	{consistentState, "The rows and their indexes agree, each five minutes and in the end.", allFaults},
	{equalReplay, "A second server that applies the same log has the same state, byte for byte.", allFaults},
	{nothingStuck, "An hour after the last fault, at the latest, each job runs, nothing waits, and no machine " +
		"that is gone has a claim.", "the faults have ended, and an operator has confirmed each machine that is gone"},
}
