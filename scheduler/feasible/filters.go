package feasible

import "berth/scheduler/rejects"

// Filters lists the names of all filters, as the reasons of a group without a place name them
// (structs.PlacementRejection).
func Filters() []string {
	names := []string{rejects.FilterResources}
	for _, f := range groupFilters {
		names = append(names, f.name)
	}
	for _, f := range placeFilters {
		names = append(names, f.name)
	}
	return names
}
