package invariant

import (
	"fmt"

	"berth/state"
)

// Rule is one invariant.
type Rule struct {
	Name string
	// Faults describes what breaks the rule.
	Faults func(*View) []string
}

// Always lists the rules that hold after each log entry.
var Always = []Rule{
	{"no node runs more than it has", CapacityOfNodes},
	{"no device is given twice", DevicesOnce},
	{"no port is given twice", PortsOnce},
	{"no host volume has two writers", HostVolumeWriters},
	{"no volume has two writers", VolumeWriters},
	{"an allocation waits only for those that end", WaitsForEnding},
	{"an allocation waits only for older ones", WaitsForOlder},
	{"an allocation is placed where its job may run", PlacedWhereAllowed},
	{"a volume is placed where its plugin stays", VolumesWherePluginsStay},
	{"only less important allocations are displaced", VictimsOfLowPriority},
	{"the scheduler makes each plan", PlansMade},
	{"no namespace has more than its quota", WithinQuotas},
	{"an update keeps its pace", UpdatesKeepPace},
}

// Settled lists the rules that hold while the servers have nothing to do at once.
var Settled = []Rule{
	{"no evaluation stays blocked although there is capacity", NothingStaysBlocked},
	{"nothing is missing although there is capacity", NothingMissing},
	{"each node of a per-node job is served", NodesServed},
	{"no claim waits for an allocation that stays", ClaimsWaitForEnding},
	{"nothing runs that no job wants", NothingUnwanted},
	{"nothing runs on a node that is down", NothingOnLostNodes},
	{"each failure has its next try", FailuresFollowed},
}

// Calm lists the rules that hold once everything has answered.
var Calm = []Rule{
	{"every deployment ends", DeploymentsEnd},
	{"no evaluation is pending", NothingPending},
	{"every drain ends", DrainsEnd},
	{"no allocation waits", NothingWaits},
	{"every claim is used", ClaimsUsed},
	{"every attachment is used", AttachmentsUsed},
}

// Ample lists the rules that hold besides on a fleet with capacity for everything.
var Ample = []Rule{
	{"no update waits for its own job", UpdatesNeedNoOthers},
}

// Broken describes what breaks the rules of some lists, each line with the name of its rule.
func Broken(tx *state.ReadTx, lists ...[]Rule) (faults []string) {
	v := NewView(tx)
	for _, rules := range lists {
		for _, r := range rules {
			for _, fault := range r.Faults(v) {
				faults = append(faults, fmt.Sprintf("%s: %s", r.Name, fault))
			}
		}
	}
	return faults
}
