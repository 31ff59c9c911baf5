package fsm

import "berth/structs"

// PlanLimits returns the limits of plans in a cluster whose servers all have a version of commands. The
// leader plans within them, and so does a server that shows what a registration would change.
func PlanLimits(version int) structs.PlanLimits {
	return structs.PlanLimits{
		Older:          version < PlacementSince,
		OnlyReady:      version < ReturnedPluginsSince,
		FixedDeadlines: version < RenewedDeadlinesSince,
		NoCauses:       version < StopCausesSince,
	}
}
